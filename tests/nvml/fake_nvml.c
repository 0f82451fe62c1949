/* A stand-in for libnvidia-ml.so.1: two GPUs whose answers, errors and hangs a test sets.
 *
 * Layouts and names follow nvml.h of CUDA 13. A value, an error or a hang is set under the name
 * of a function, or under "field N" for one field of nvmlDeviceGetFieldValues. */

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { int index; } gpu;

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { MOST = 64, GPUS = 2, MOST_PROCESSES = 16 };

typedef struct { char name[64]; u64 value; int has_value, error, hangs; } setting;
typedef struct { u32 pid; u64 memory; u32 gpu_instance, compute_instance; } process;
typedef struct { u64 total, free, used; } memory_v1;
typedef struct { u32 version; u64 total, reserved, free, used; } memory_v2;
typedef struct { u32 gpu, memory; } utilisation;
typedef struct { u64 reference, violation; } violation;
typedef struct {
  char legacy[16];
  u32 domain, bus, device, id, subsystem;
  char bus_id[32];
} pci;
typedef struct {
  u32 field, scope;
  long long timestamp, latency;
  u32 type, result;
  union { double d; u32 u; u64 ull; } value;
} field_value;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static setting settings[MOST];
static int setting_count, waiting, opened, resets;
static process processes[3][MOST_PROCESSES];
static u32 process_count[3];
static gpu gpus[GPUS] = {{0}, {1}};
static const char *uuids[GPUS] = {"GPU-00000000-1111-2222-3333-444444444444",
                                  "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"};
static const char *bus_ids[GPUS] = {"00000000:1B:00.0", "00000000:43:00.0"};
static const char *names[GPUS] = {"Fake GPU 0", "Fake GPU 1"};

static setting *find(const char *name) {
  for (int i = 0; i < setting_count; i++)
    if (!strcmp(settings[i].name, name)) return &settings[i];
  return 0;
}

static setting *make(const char *name) {
  setting *found = find(name);
  if (!found) {
    found = &settings[setting_count++];
    memset(found, 0, sizeof *found);
    strncpy(found->name, name, sizeof found->name - 1);
  }
  return found;
}

void fake_reset(void) {
  pthread_mutex_lock(&lock);
  setting_count = 0;
  memset(process_count, 0, sizeof process_count);
  opened = 0;
  resets++;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

void fake_value(const char *name, u64 value) {
  pthread_mutex_lock(&lock);
  make(name)->value = value;
  make(name)->has_value = 1;
  pthread_mutex_unlock(&lock);
}

void fake_error(const char *name, int code) {
  pthread_mutex_lock(&lock);
  make(name)->error = code;
  pthread_mutex_unlock(&lock);
}

void fake_hang(const char *name, int hangs) {
  pthread_mutex_lock(&lock);
  make(name)->hangs = hangs;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

/* kind: 0 compute, 1 graphics, 2 MPS. */
void fake_process(int kind, u32 pid, u64 memory) {
  pthread_mutex_lock(&lock);
  processes[kind][process_count[kind]++] = (process){pid, memory, 0, 0};
  pthread_mutex_unlock(&lock);
}

void fake_no_processes(void) {
  pthread_mutex_lock(&lock);
  memset(process_count, 0, sizeof process_count);
  pthread_mutex_unlock(&lock);
}

int fake_waiting(void) { return waiting; }
int fake_opened(void) { return opened; }

/* Waits while the function is to hang; its error code, and its value if one was set. */
static int answer(const char *name, u64 *value) {
  pthread_mutex_lock(&lock);
  setting *found;
  waiting++;
  while ((found = find(name)) && found->hangs) pthread_cond_wait(&changed, &lock);
  waiting--;
  if (found && found->has_value && value) *value = found->value;
  int code = found ? found->error : SUCCESS;
  pthread_mutex_unlock(&lock);
  return code;
}

static int answer_u32(const char *name, u32 otherwise, u32 *out) {
  u64 value = otherwise;
  int code = answer(name, &value);
  if (!code) *out = (u32)value;
  return code;
}

static int answer_text(const char *name, const char *text, char *out, u32 size) {
  int code = answer(name, 0);
  if (!code) snprintf(out, size, "%s", text);
  return code;
}

/* A call that hung until the reset belongs to an earlier test and is not counted. */
static int count_open(const char *name, int step) {
  int before = resets, code = answer(name, 0);
  if (!code && before == resets) opened += step;
  return code;
}
int nvmlInitWithFlags(u32 flags) { return count_open("nvmlInitWithFlags", 1); }
int nvmlShutdown(void) { return count_open("nvmlShutdown", -1); }
const char *nvmlErrorString(int code) { return code == 999 ? "Unknown Error" : "Some Error"; }

int nvmlSystemGetDriverVersion(char *out, u32 size) {
  return answer_text("nvmlSystemGetDriverVersion", "580.65.06", out, size);
}
int nvmlSystemGetCudaDriverVersion_v2(int *out) {
  return answer_u32("nvmlSystemGetCudaDriverVersion", 13020, (u32 *)out);
}
int nvmlDeviceGetCount_v2(u32 *out) { return answer_u32("nvmlDeviceGetCount", GPUS, out); }

int nvmlDeviceGetHandleByIndex_v2(u32 index, gpu **out) {
  if (index >= GPUS) return INVALID_ARGUMENT;
  *out = &gpus[index];
  return answer("nvmlDeviceGetHandleByIndex", 0);
}

static int by_text(const char **texts, const char *text, gpu **out) {
  for (int i = 0; i < GPUS; i++)
    if (!strcmp(texts[i], text)) return *out = &gpus[i], SUCCESS;
  return NOT_FOUND;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, gpu **out) {
  int code = answer("nvmlDeviceGetHandleByUUID", 0);
  return code ? code : by_text(uuids, uuid, out);
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, gpu **out) {
  char full[32];
  u32 domain, bus, device, function;
  if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) return INVALID_ARGUMENT;
  snprintf(full, sizeof full, "%08X:%02X:%02X.%X", domain, bus, device, function);
  return by_text(bus_ids, full, out);
}

int nvmlDeviceGetName(gpu *g, char *out, u32 size) {
  return answer_text("nvmlDeviceGetName", names[g->index], out, size);
}
int nvmlDeviceGetUUID(gpu *g, char *out, u32 size) {
  return answer_text("nvmlDeviceGetUUID", uuids[g->index], out, size);
}
int nvmlDeviceGetVbiosVersion(gpu *g, char *out, u32 size) {
  return answer_text("nvmlDeviceGetVbiosVersion", "96.00.61.00.01", out, size);
}
int nvmlDeviceGetPciInfo_v3(gpu *g, pci *out) {
  memset(out, 0, sizeof *out);
  return answer_text("nvmlDeviceGetPciInfo", bus_ids[g->index], out->bus_id, sizeof out->bus_id);
}
int nvmlDeviceGetCudaComputeCapability(gpu *g, int *major, int *minor) {
  u32 both = 90;
  int code = answer_u32("nvmlDeviceGetCudaComputeCapability", both, &both);
  *major = both / 10, *minor = both % 10;
  return code;
}
int nvmlDeviceGetNumGpuCores(gpu *g, u32 *out) {
  return answer_u32("nvmlDeviceGetNumGpuCores", 16896, out);
}

static const char *clocks[3] = {"graphics", "sm", "mem"};
static int clock_of(const char *which, u32 type, u32 otherwise, u32 *out) {
  char name[64];
  snprintf(name, sizeof name, "%s %s", which, clocks[type]);
  return answer_u32(name, otherwise, out);
}
int nvmlDeviceGetClockInfo(gpu *g, u32 type, u32 *out) {
  return clock_of("nvmlDeviceGetClockInfo", type, type == 2 ? 2619 : 1755, out);
}
int nvmlDeviceGetMaxClockInfo(gpu *g, u32 type, u32 *out) {
  return clock_of("nvmlDeviceGetMaxClockInfo", type, type == 2 ? 2619 : 1980, out);
}

int nvmlDeviceGetEnforcedPowerLimit(gpu *g, u32 *out) {
  return answer_u32("nvmlDeviceGetEnforcedPowerLimit", 700000, out);
}
int nvmlDeviceGetPowerUsage(gpu *g, u32 *out) {
  return answer_u32("nvmlDeviceGetPowerUsage", 300000, out);
}
int nvmlDeviceGetEccMode(gpu *g, u32 *current, u32 *pending) {
  *pending = 1;
  return answer_u32("nvmlDeviceGetEccMode", 1, current);
}
int nvmlDeviceGetMigMode(gpu *g, u32 *current, u32 *pending) {
  *pending = 0;
  return answer_u32("nvmlDeviceGetMigMode", 0, current);
}
int nvmlDeviceGetPersistenceMode(gpu *g, u32 *out) {
  return answer_u32("nvmlDeviceGetPersistenceMode", 1, out);
}
int nvmlDeviceGetTemperature(gpu *g, u32 sensor, u32 *out) {
  return answer_u32("nvmlDeviceGetTemperature", 41, out);
}
int nvmlDeviceGetUtilizationRates(gpu *g, utilisation *out) {
  out->memory = 12;
  return answer_u32("nvmlDeviceGetUtilizationRates", 97, &out->gpu);
}
int nvmlDeviceGetMemoryInfo_v2(gpu *g, memory_v2 *out) {
  if (out->version != (sizeof *out | 2u << 24)) return 25;
  out->total = 85520809984ull;
  out->reserved = 500ull << 20;
  out->used = 1ull << 30;
  int code = answer("nvmlDeviceGetMemoryInfo", &out->used);
  out->free = out->total - out->reserved - out->used;
  return code;
}
#ifndef WITHOUT_EVENT_REASONS
int nvmlDeviceGetCurrentClocksEventReasons(gpu *g, u64 *out) {
  *out = 0;
  return answer("nvmlDeviceGetCurrentClocksEventReasons", out);
}
#endif
int nvmlDeviceGetTotalEccErrors(gpu *g, u32 type, u32 counter, u64 *out) {
  if (type != 1 || counter != 0) return INVALID_ARGUMENT;
  *out = 0;
  return answer("nvmlDeviceGetTotalEccErrors", out);
}
int nvmlDeviceGetTotalEnergyConsumption(gpu *g, u64 *out) {
  *out = 1000000;
  return answer("nvmlDeviceGetTotalEnergyConsumption", out);
}
int nvmlDeviceGetViolationStatus(gpu *g, u32 policy, violation *out) {
  out->reference = out->violation = 0;
  const char *name = policy ? "violation thermal" : "violation power";
  return answer(name, &out->violation);
}
int nvmlDeviceGetFieldValues(gpu *g, int count, field_value *values) {
  for (int i = 0; i < count; i++) {
    char name[64];
    snprintf(name, sizeof name, "field %u", values[i].field);
    values[i].result = answer_u32(name, 250000, &values[i].value.u);
  }
  return answer("nvmlDeviceGetFieldValues", 0);
}

static int list(int kind, const char *name, u32 *count, process *out) {
  int code = answer(name, 0);
  if (code) return code;
  u32 room = *count, have = *count = process_count[kind];
  if (have && (!out || room < have)) return INSUFFICIENT_SIZE;
  if (have) memcpy(out, processes[kind], have * sizeof *out);
  return SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(gpu *g, u32 *count, process *out) {
  return list(0, "nvmlDeviceGetComputeRunningProcesses", count, out);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(gpu *g, u32 *count, process *out) {
  return list(1, "nvmlDeviceGetGraphicsRunningProcesses", count, out);
}
int nvmlDeviceGetMPSComputeRunningProcesses_v3(gpu *g, u32 *count, process *out) {
  return list(2, "nvmlDeviceGetMPSComputeRunningProcesses", count, out);
}
