/* Loaded into a process with LD_PRELOAD: notes every change of files below $CRASH_FOLDER in the
 * file $CRASH_TRACE, and ends the process at the change with the number $CRASH_AT, before it is
 * made, or, with $CRASH_TORN, after half of its bytes.
 *
 * A note is one line: the operation, its path or paths (as hexadecimal), and its numbers; the bytes
 * of a write follow as hexadecimal. `tests/sessions/crash/disk.py` reads them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static char folder[PATH_MAX];
static int trace = -1;
static long crash_at = -1, done;
static int torn;

__attribute__((constructor)) static void begin(void) {
    const char *place = getenv("CRASH_FOLDER"), *file = getenv("CRASH_TRACE");
    if (!place || !file) return;
    snprintf(folder, sizeof folder, "%s/", place);
    trace = (int)syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (getenv("CRASH_AT")) crash_at = atol(getenv("CRASH_AT"));
    torn = getenv("CRASH_TORN") != NULL;
}

static void note(const char *text, size_t size) {
    while (size) {
        long n = syscall(SYS_write, trace, text, size);
        if (n <= 0) return;
        text += n;
        size -= (size_t)n;
    }
}

static size_t hex(char *to, const void *from, size_t size) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = ((const unsigned char *)from)[i];
        to[2 * i] = digits[byte >> 4];
        to[2 * i + 1] = digits[byte & 15];
    }
    return 2 * size;
}

/* Whether an open file lies below the folder; its path goes to `path`. */
static int watched(int fd, char *path) {
    char link[64];
    if (trace < 0 || fd < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long size = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    if (size <= 0) return 0;
    path[size] = 0;
    char slashed[PATH_MAX + 1];
    snprintf(slashed, sizeof slashed, "%s/", path);
    return !strncmp(slashed, folder, strlen(folder));
}

/* The same for a name relative to an open folder. */
static int watched_name(int at, const char *name, char *path) {
    char base[PATH_MAX];
    if (trace < 0) return 0;
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else if (at == AT_FDCWD) {
        if (!getcwd(base, sizeof base)) return 0;
        snprintf(path, PATH_MAX, "%s/%s", base, name);
    } else {
        if (!watched(at, base)) return 0;
        snprintf(path, PATH_MAX, "%s/%s", base, name);
    }
    return !strncmp(path, folder, strlen(folder));
}

/* Whether the process ends at this change. */
static int ends_here(void) { return done++ == crash_at; }

static void end(void) { syscall(SYS_exit_group, 137); }

static void note_paths(const char *what, const char *one, const char *two, long number) {
    char line[8 * PATH_MAX];
    size_t size = (size_t)snprintf(line, 64, "%s ", what);
    size += hex(line + size, one, strlen(one));
    line[size++] = ' ';
    if (two) size += hex(line + size, two, strlen(two));
    else line[size++] = '-';
    size += (size_t)snprintf(line + size, 32, " %ld\n", number);
    note(line, size);
}

static void note_write(const char *path, const void *data, size_t count, long offset) {
    char *line = malloc(2 * strlen(path) + 2 * count + 128);
    size_t size = (size_t)sprintf(line, "write ");
    size += hex(line + size, path, strlen(path));
    line[size++] = ' ';
    size += hex(line + size, data, count);
    if (!count) line[size++] = '-';
    size += (size_t)sprintf(line + size, " %ld\n", offset);
    note(line, size);
    free(line);
}

ssize_t write(int fd, const void *data, size_t count) {
    char path[PATH_MAX];
    if (!watched(fd, path)) return REAL(write)(fd, data, count);
    long flags = syscall(SYS_fcntl, fd, F_GETFL);
    long offset = syscall(SYS_lseek, fd, 0, (flags & O_APPEND) ? SEEK_END : SEEK_CUR);
    if (ends_here()) {
        if (torn) syscall(SYS_write, fd, data, count / 2);
        end();
    }
    ssize_t written = syscall(SYS_write, fd, data, count);
    if (written > 0) note_write(path, data, (size_t)written, offset);
    return written;
}

ssize_t pwrite64(int fd, const void *data, size_t count, off64_t offset) {
    char path[PATH_MAX];
    if (!watched(fd, path)) return REAL(pwrite64)(fd, data, count, offset);
    if (ends_here()) {
        if (torn) syscall(SYS_pwrite64, fd, data, count / 2, offset);
        end();
    }
    ssize_t written = syscall(SYS_pwrite64, fd, data, count, offset);
    if (written > 0) note_write(path, data, (size_t)written, (long)offset);
    return written;
}

ssize_t pwrite(int fd, const void *data, size_t count, off_t offset) {
    return pwrite64(fd, data, count, offset);
}

static int synced(int fd, long call) {
    char path[PATH_MAX];
    int known = watched(fd, path);
    if (known && ends_here()) end();
    int answer = (int)syscall(call, fd);
    if (known && !answer) note_paths("sync", path, NULL, 0);
    return answer;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

int ftruncate64(int fd, off64_t size) {
    char path[PATH_MAX];
    int known = watched(fd, path);
    if (known && ends_here()) end();
    int answer = (int)syscall(SYS_ftruncate, fd, size);
    if (known && !answer) note_paths("truncate", path, NULL, (long)size);
    return answer;
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int renameat(int old_at, const char *old, int new_at, const char *new) {
    char from[PATH_MAX], to[PATH_MAX];
    int known = watched_name(new_at, new, to) && watched_name(old_at, old, from);
    if (known && ends_here()) end();
    int answer = (int)syscall(SYS_renameat2, old_at, old, new_at, new, 0);
    if (known && !answer) note_paths("rename", from, to, 0);
    return answer;
}

int rename(const char *old, const char *new) { return renameat(AT_FDCWD, old, AT_FDCWD, new); }

int unlinkat(int at, const char *name, int flags) {
    char path[PATH_MAX];
    int known = watched_name(at, name, path);
    if (known && ends_here()) end();
    int answer = (int)syscall(SYS_unlinkat, at, name, flags);
    if (known && !answer) note_paths("unlink", path, NULL, 0);
    return answer;
}

int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }

int mkdirat(int at, const char *name, mode_t mode) {
    char path[PATH_MAX];
    int known = watched_name(at, name, path);
    if (known && ends_here()) end();
    int answer = (int)syscall(SYS_mkdirat, at, name, mode);
    if (known && !answer) note_paths("mkdir", path, NULL, 0);
    return answer;
}

int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }

int openat64(int at, const char *name, int flags, ...) {
    char path[PATH_MAX];
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list list;
        va_start(list, flags);
        mode = va_arg(list, mode_t);
        va_end(list);
    }
    struct stat before;
    int makes = (flags & O_CREAT) && watched_name(at, name, path) && lstat(path, &before) != 0;
    int cuts = !makes && (flags & O_TRUNC) && watched_name(at, name, path);
    if ((makes || cuts) && ends_here()) end();
    int fd = (int)syscall(SYS_openat, at, name, flags, mode);
    if (fd >= 0 && makes) note_paths("create", path, NULL, 0);
    if (fd >= 0 && cuts) note_paths("truncate", path, NULL, 0);
    return fd;
}

int openat(int at, const char *name, int flags, ...) {
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, mode_t) : 0;
    va_end(list);
    return openat64(at, name, flags, mode);
}

int open64(const char *name, int flags, ...) {
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, mode_t) : 0;
    va_end(list);
    return openat64(AT_FDCWD, name, flags, mode);
}

int open(const char *name, int flags, ...) {
    va_list list;
    va_start(list, flags);
    mode_t mode = (flags & (O_CREAT | O_TMPFILE)) ? va_arg(list, mode_t) : 0;
    va_end(list);
    return openat64(AT_FDCWD, name, flags, mode);
}
