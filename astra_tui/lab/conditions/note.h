#pragma once
template <int ID> __device__ __forceinline__ void NAME_note(bool taken) {
  asm volatile("astra.cond %0, %1;" :: "n"(ID), "r"((int)taken));
}
template <int ID> __device__ __forceinline__ constexpr bool NAME(bool taken) {
  return __builtin_is_constant_evaluated() ? taken : (NAME_note<ID>(taken), taken);
}
template <int ID> __device__ __forceinline__ constexpr bool NAME_value(bool taken) {
  return NAME<ID>(taken);
}
template <int ID, class T> __device__ __forceinline__ constexpr T NAME_value(T other) {
  return other;
}
template <int ID, class T> __device__ __forceinline__ constexpr void NAME_case(T, bool taken) {
  NAME<ID>(!taken);
}
template <int ID, class T, class C, class... Others>
__device__ __forceinline__ constexpr void NAME_case(T value, bool taken, C label,
                                                    Others... others) {
  const bool here = value == (T)label;
  NAME<ID>(here);
  NAME_case<ID + 1>(value, taken || here, others...);
}
template <int ID, class T, class... Labels>
__device__ __forceinline__ constexpr T NAME_switch(T value, Labels... labels) {
  NAME_case<ID>(value, false, labels...);
  return value;
}
