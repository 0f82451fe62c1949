#pragma once
#include <cstdint>
#define PRId32 "d"
#define PRIu32 "u"
#define PRId64 "lld"
#define PRIu64 "llu"
