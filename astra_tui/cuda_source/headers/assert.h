extern "C" __device__ void __assertfail(const char* message, const char* file, unsigned int line,
                                        const char* function, decltype(sizeof(0)) char_size);
#undef assert
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) \
  ((condition) ? (void)0 : __assertfail(#condition, __FILE__, __LINE__, __func__, 1))
#endif
