#pragma once
#include <stddef.h>
int strcmp(const char*, const char*);
size_t strlen(const char*);
