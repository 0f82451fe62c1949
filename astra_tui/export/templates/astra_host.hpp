// What a generated launch plan is written with: plain C++17, without CUDA.
#ifndef ASTRA_HOST_HPP
#define ASTRA_HOST_HPP

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace astra {

// What a call answers. From kRefused on, a reason of the launch plan; from kCuda on, a CUDA error.
enum Status : int {
  kDone = 0,
  kNullPointer = 1,
  kUnknownDtype = 2,
  kOutsideContract = 3,
  kBadStrides = 4,
  kMisaligned = 5,
  kPlanFault = 6,
  kNotCompiled = 7,
  kNoBranch = 8,
  kContract = 100,  // and the number of the condition that does not hold
  kRefused = 500,
  kCuda = 1000,
};

inline const char* message(int status) {
  switch (status) {
    case kDone: return "done";
    case kNullPointer: return "a pointer is null";
    case kUnknownDtype: return "this element type was not compiled";
    case kOutsideContract: return "the call lies outside of the contract";
    case kBadStrides: return "only the rows of a tensor may lie apart, equally far";
    case kMisaligned: return "an address is not a multiple of the element's size";
    case kPlanFault: return "the launch plan makes no sense for this call";
    case kNotCompiled: return "the kernel for these dimensions was not compiled";
    case kNoBranch: return "no branch of the launch plan covers this call";
    default: return "unknown status";
  }
}

// Thrown inside of a call, and caught at its end.
struct Fault {
  int status;
};

// Thrown for a tensor that is not what an argument takes.
struct Misfit {
  std::string argument;
  std::string problem;
};

inline void require(bool holds, int status) {
  if (!holds) throw Fault{status};
}

// A whole number of 64 bits. Arithmetic rounds down, as in the launch plan, and never wraps.
struct Int {
  std::int64_t value;
  constexpr Int(std::int64_t given) : value(given) {}
};

inline Int bounded(bool overflow, std::int64_t value) {
  require(!overflow && value != INT64_MIN, kPlanFault);
  return Int(value);
}

inline Int operator+(Int a, Int b) {
  std::int64_t r = 0;
  const bool overflow = __builtin_add_overflow(a.value, b.value, &r);
  return bounded(overflow, r);
}

inline Int operator-(Int a, Int b) {
  std::int64_t r = 0;
  const bool overflow = __builtin_sub_overflow(a.value, b.value, &r);
  return bounded(overflow, r);
}

inline Int operator*(Int a, Int b) {
  std::int64_t r = 0;
  const bool overflow = __builtin_mul_overflow(a.value, b.value, &r);
  return bounded(overflow, r);
}

inline Int operator-(Int a) { return Int(-a.value); }

inline Int floor_div(Int a, Int b) {
  require(b.value != 0, kPlanFault);
  const std::int64_t q = a.value / b.value;
  const bool down = a.value % b.value != 0 && (a.value < 0) != (b.value < 0);
  return Int(down ? q - 1 : q);
}

inline Int operator%(Int a, Int b) {
  require(b.value != 0, kPlanFault);
  const std::int64_t r = a.value % b.value;
  return Int(r != 0 && (r < 0) != (b.value < 0) ? r + b.value : r);
}

inline bool operator==(Int a, Int b) { return a.value == b.value; }
inline bool operator!=(Int a, Int b) { return a.value != b.value; }
inline bool operator<(Int a, Int b) { return a.value < b.value; }
inline bool operator<=(Int a, Int b) { return a.value <= b.value; }
inline bool operator>(Int a, Int b) { return a.value > b.value; }
inline bool operator>=(Int a, Int b) { return a.value >= b.value; }

inline Int ceil_div(Int a, Int b) {
  require(a.value >= 0 && b.value > 0, kPlanFault);
  return Int(a.value / b.value + (a.value % b.value != 0));
}

inline Int min(std::initializer_list<Int> values) {
  Int found = *values.begin();
  for (Int each : values) found = each < found ? each : found;
  return found;
}

inline Int max(std::initializer_list<Int> values) {
  Int found = *values.begin();
  for (Int each : values) found = each > found ? each : found;
  return found;
}

// A number of double precision. Arithmetic gives finite ones only.
struct Real {
  double value;
  constexpr explicit Real(double given) : value(given) {}
  constexpr explicit Real(Int given) : value(static_cast<double>(given.value)) {}
};

inline Real finite(double value) {
  require(std::isfinite(value), kPlanFault);
  return Real(value);
}

inline Real operator+(Real a, Real b) { return finite(a.value + b.value); }
inline Real operator-(Real a, Real b) { return finite(a.value - b.value); }
inline Real operator*(Real a, Real b) { return finite(a.value * b.value); }
inline Real operator-(Real a) { return finite(-a.value); }

inline Real operator/(Real a, Real b) {
  require(b.value != 0, kPlanFault);
  return finite(a.value / b.value);
}

inline Real sqrt(Real a) {
  require(a.value >= 0, kPlanFault);
  return Real(std::sqrt(a.value));
}

inline Real rsqrt(Real a) { return Real(1.0) / sqrt(a); }

// A number that a kernel takes: a whole one, or one of floating point.
struct Number {
  bool is_float;
  std::int64_t whole;
  double real;
  Number(Int v) : is_float(false), whole(v.value), real(static_cast<double>(v.value)) {}
  Number(bool v) : is_float(false), whole(v), real(v) {}
  Number(Real v) : is_float(true), whole(0), real(v.value) {}
};

inline void* moved(void* pointer, const Number& bytes) {
  return static_cast<char*>(pointer) + bytes.whole;
}

template <typename P>
P to_parameter(void* pointer) {
  static_assert(std::is_pointer_v<P>, "the launch plan passes a tensor, the kernel takes a number");
  return static_cast<P>(pointer);
}

template <typename P>
P to_parameter(const Number& number) {
  static_assert(!std::is_pointer_v<P>,
                "the launch plan passes a number, the kernel takes a pointer");
  if constexpr (std::is_integral_v<P>) {
    require(!number.is_float, kPlanFault);
    if constexpr (std::is_signed_v<P> || sizeof(P) < sizeof(std::int64_t)) {
      require(number.whole >= static_cast<std::int64_t>(std::numeric_limits<P>::min()) &&
                  number.whole <= static_cast<std::int64_t>(std::numeric_limits<P>::max()),
              kPlanFault);
    } else {
      require(number.whole >= 0, kPlanFault);
    }
    return static_cast<P>(number.whole);
  } else if constexpr (std::is_floating_point_v<P>) {
    return static_cast<P>(number.real);
  } else {
    return P(number.real);  // __half, __nv_bfloat16
  }
}

// Where a tensor lies: its address, and its strides in elements.
struct Layout {
  std::uint64_t address;
  std::vector<Int> strides;
};

inline Int stride(const Layout& tensor, int axis) { return tensor.strides[axis]; }

// Alignment beyond 256 bytes is not seen.
inline bool aligned(const Layout& tensor, Int count) {
  require(count.value >= 1 && (count.value & (count.value - 1)) == 0, kPlanFault);
  return count.value <= 256 && tensor.address % static_cast<std::uint64_t>(count.value) == 0;
}

inline Int elements(const std::vector<Int>& shape) {
  Int count = 1;
  for (Int size : shape) {
    require(size.value >= 0, kOutsideContract);
    count = count * size;
  }
  return count;
}

inline std::vector<Int> contiguous(const std::vector<Int>& shape) {
  std::vector<Int> strides(shape.size(), Int(1));
  for (std::size_t axis = shape.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * shape[axis];
  }
  return strides;
}

inline void require_pointer(const void* data, int size, const std::vector<Int>& shape) {
  if (elements(shape) == 0) return;
  require(data != nullptr, kNullPointer);
  require(reinterpret_cast<std::uint64_t>(data) % static_cast<std::uint64_t>(size) == 0,
          kMisaligned);
}

// A tensor without gaps, of elements of `size` bytes.
inline Layout tensor(const void* data, int size, const std::vector<Int>& shape) {
  require_pointer(data, size, shape);
  return {reinterpret_cast<std::uint64_t>(data), contiguous(shape)};
}

// A tensor whose rows may lie apart. An axis of one element may have any stride.
inline Layout strided(const void* data, int size, const std::vector<Int>& shape,
                      const std::int64_t* strides) {
  require_pointer(data, size, shape);
  std::vector<Int> expected = contiguous(shape);
  const std::size_t last = shape.size() - 1;
  if (elements(shape) > 0) {
    require(shape[last] == 1 || strides[last] == 1, kBadStrides);
    Int row = shape[last];
    for (std::size_t axis = last; axis-- > 0;) {
      if (shape[axis] > 1) {
        row = strides[axis];
        break;
      }
    }
    require(row >= shape[last], kBadStrides);
    for (std::size_t axis = last; axis-- > 0;) {
      expected[axis] = row;
      require(shape[axis] <= 1 || Int(strides[axis]) == row, kBadStrides);
      row = row * shape[axis];
    }
  }
  return {reinterpret_cast<std::uint64_t>(data), expected};
}

struct Device {
  std::int64_t sm_count;
  std::int64_t warp_size;
  std::int64_t max_threads_per_block;
  std::int64_t max_threads_per_sm;
  std::int64_t max_shared_memory_per_block;
  std::int64_t max_shared_memory_per_sm;
  std::int64_t l2_cache_bytes;
};

using Sizes = std::array<std::uint32_t, 3>;

// One launch: which of the generated kernels, and with what.
struct Launch {
  int kernel;
  Sizes grid;
  Sizes block;
  std::uint32_t shared;
  std::vector<Number> numbers;
  // <attributes>
  bool pdl = false;  // it may begin before what runs before it on the stream has ended
  Sizes cluster = {1, 1, 1};  // blocks of a thread block cluster
  // </attributes>
};

// What one call launches, in order, and the bytes of its workspaces.
struct Plan {
  std::vector<Int> workspaces;
  std::vector<Launch> launches;
};

inline Sizes sizes(const std::array<Int, 3>& given, const std::array<std::int64_t, 3>& limits,
                   int smallest) {
  Sizes found{};
  for (int axis = 0; axis < 3; ++axis) {
    require(given[axis] >= smallest && given[axis] <= limits[axis], kPlanFault);
    found[axis] = static_cast<std::uint32_t>(given[axis].value);
  }
  return found;
}

inline Sizes grid(Int x, Int y = 1, Int z = 1) {
  return sizes({x, y, z}, {2147483647, 65535, 65535}, 0);
}

inline bool is_empty(const Sizes& grid) { return grid[0] == 0 || grid[1] == 0 || grid[2] == 0; }

inline Sizes block(const Device& device, Int x, Int y = 1, Int z = 1) {
  const Sizes found = sizes({x, y, z}, {1024, 1024, 64}, 1);
  const std::int64_t threads = std::int64_t{found[0]} * found[1] * found[2];
  require(threads <= device.max_threads_per_block, kPlanFault);
  return found;
}

// <attributes>
inline Sizes cluster(const Sizes& grid, Int x, Int y = 1, Int z = 1) {
  const Sizes found = sizes({x, y, z}, {16, 16, 16}, 1);
  require(found[0] * found[1] * found[2] <= 16, kPlanFault);
  for (int axis = 0; axis < 3; ++axis) require(grid[axis] % found[axis] == 0, kPlanFault);
  return found;
}

// </attributes>
inline std::uint32_t shared(const Device& device, Int bytes) {
  require(bytes >= 0 && bytes <= device.max_shared_memory_per_block, kPlanFault);
  return static_cast<std::uint32_t>(bytes.value);
}

// Scratch memory of a call; its address is not known yet, but is a multiple of 256.
inline Layout workspace(Plan& plan, int size, const std::vector<Int>& shape) {
  for (Int length : shape) require(length >= 0, kPlanFault);
  const Int bytes = elements(shape) * size;
  Int together = bytes;
  for (Int other : plan.workspaces) together = together + other;
  require(together <= Int(std::int64_t{1} << 30), kPlanFault);
  plan.workspaces.push_back(bytes);
  return {0, contiguous(shape)};
}

// -- tensors that know their own shape, as those of DLPack do --------------------------------

// The numbers that DLPack gives them.
enum Code : int {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kBool = 6,
  kFloat8_e4m3fn = 10,
  kFloat8_e5m2 = 12,
};

struct Type {
  int code;
  int bits;
};

inline bool operator==(Type a, Type b) { return a.code == b.code && a.bits == b.bits; }

inline std::string name(Type type) {
  const std::string bits = std::to_string(type.bits);
  switch (type.code) {
    case kInt: return "int" + bits;
    case kUInt: return "uint" + bits;
    case kFloat: return "float" + bits;
    case kBfloat: return "bfloat" + bits;
    case kBool: return "bool";
    case kFloat8_e4m3fn: return "float8_e4m3fn";
    case kFloat8_e5m2: return "float8_e5m2";
    default: return "of another type";
  }
}

template <typename Sizes>
std::string listed(const Sizes& sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "(" + text + ")";
}

struct Tensor {
  void* data;
  int device;  // its ordinal
  Type type;
  int axes;
  const std::int64_t* sizes;
  const std::int64_t* strides;  // null for a tensor without gaps
};

inline std::vector<std::int64_t> shape(const Tensor& given) {
  return {given.sizes, given.sizes + given.axes};
}

inline void has_rank(const Tensor& given, const Tensor& first, int axes, const char* argument) {
  if (given.device != first.device) throw Misfit{argument, "is on another device"};
  if (given.axes != axes) {
    throw Misfit{argument, "has the shape " + listed(shape(given)) + "; it should have " +
                               std::to_string(axes) + " axes"};
  }
}

inline void fits(const Tensor& given, Type type, const std::vector<Int>& wanted,
                 const char* argument) {
  std::vector<std::int64_t> sizes;
  for (Int size : wanted) sizes.push_back(size.value);
  if (shape(given) != sizes) {
    throw Misfit{argument, "has the shape " + listed(shape(given)) + "; it should be " +
                               listed(sizes)};
  }
  if (!(given.type == type)) {
    throw Misfit{argument, "is " + name(given.type) + "; it should be " + name(type)};
  }
}

inline void is_contiguous(const Tensor& given, const char* argument) {
  if (given.strides != nullptr) throw Misfit{argument, "is not contiguous"};
}

// Bytes from a tensor's address to the end of its last element.
inline std::int64_t span(const Tensor& given) {
  std::int64_t last = 0;
  std::int64_t step = 1;
  for (int axis = given.axes - 1; axis >= 0; --axis) {
    if (given.sizes[axis] == 0) return 0;
    last += (given.sizes[axis] - 1) * (given.strides == nullptr ? step : given.strides[axis]);
    step *= given.sizes[axis];
  }
  return (last + 1) * given.type.bits / 8;
}

inline void apart(const Tensor& one, const char* argument, const Tensor& other,
                  const char* another) {
  const auto between = static_cast<const char*>(other.data) - static_cast<const char*>(one.data);
  if (span(one) > 0 && span(other) > 0 && -span(other) < between && between < span(one)) {
    throw Misfit{argument, "and " + std::string(another) + " share memory"};
  }
}

inline void copy_strides(const Tensor& given, std::int64_t* strides) {
  std::int64_t step = 1;
  for (int axis = given.axes - 1; axis >= 0; --axis) {
    strides[axis] = given.strides == nullptr ? step : given.strides[axis];
    step *= given.sizes[axis];
  }
}

}  // namespace astra

#endif
