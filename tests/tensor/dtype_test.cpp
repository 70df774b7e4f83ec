// Element types: names, sizes, formats, and which C++ type has which.

#include <soma/numeric/minifloat.hpp>
#include <soma/tensor/dtype.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <string>

using namespace soma;
using soma_test::message_of;

TEST_CASE("every dtype has a name, a size, and perhaps a format", "[unit][tensor]") {
  CHECK(dtypes.size() == 19);
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    const DType dtype = dtypes[i];
    CAPTURE(to_string(dtype));
    CHECK(static_cast<std::size_t>(dtype) == i);
    CHECK(find_dtype(to_string(dtype)) == dtype);
    CHECK(is_floating(dtype) == (i < 11));
    if (!is_floating(dtype)) continue;
    CHECK(format_of(dtype) == find_format(to_string(dtype)));
    CHECK(static_cast<int>(size_of(dtype)) == format_of(dtype).bytes());
  }
  CHECK(size_of(DType::int8) == 1);
  CHECK(size_of(DType::uint8) == 1);
  CHECK(size_of(DType::boolean) == 1);
  CHECK(size_of(DType::int16) == 2);
  CHECK(size_of(DType::uint16) == 2);
  CHECK(size_of(DType::uint32) == 4);
  CHECK(size_of(DType::int32) == 4);
  CHECK(size_of(DType::int64) == 8);
  CHECK(to_string(DType::boolean) == "bool");
}

TEST_CASE("an unknown name is refused with the known ones", "[unit][tensor]") {
  CHECK(message_of([] { find_dtype("fp64"); }) ==
        "find_dtype: name is \"fp64\", wanted one of fp32 tf32 fp16 bf16 fp8_e3m4 fp8_e4m3 "
        "fp8_e5m2 fp8_e4m3fn fp8_e4m3fnuz fp8_e5m2fnuz e8m0 int8 uint8 int32 int64 bool int16 "
        "uint16 uint32 [tensor.unknown_dtype]");
  CHECK(message_of([] { find_dtype(""); }).find("is \"\"") != std::string::npos);
  CHECK(message_of([] { find_dtype("FP32"); }) != "no error");
}

template <class T>
concept HasDType = requires {
  DTypeOf<T>::value;
};

TEST_CASE("C++ types have the dtype of their format", "[unit][tensor]") {
  static_assert(dtype_of<float> == DType::fp32);
  static_assert(dtype_of<minifloat<formats::fp32>> == DType::fp32);
  static_assert(dtype_of<tf32> == DType::tf32);
  static_assert(dtype_of<fp16> == DType::fp16);
  static_assert(dtype_of<bf16> == DType::bf16);
  static_assert(dtype_of<fp8_e3m4> == DType::fp8_e3m4);
  static_assert(dtype_of<fp8_e4m3> == DType::fp8_e4m3);
  static_assert(dtype_of<fp8_e5m2> == DType::fp8_e5m2);
  static_assert(dtype_of<fp8_e4m3fn> == DType::fp8_e4m3fn);
  static_assert(dtype_of<fp8_e4m3fnuz> == DType::fp8_e4m3fnuz);
  static_assert(dtype_of<fp8_e5m2fnuz> == DType::fp8_e5m2fnuz);
  static_assert(dtype_of<e8m0> == DType::e8m0);
  static_assert(dtype_of<std::int8_t> == DType::int8);
  static_assert(dtype_of<std::uint8_t> == DType::uint8);
  static_assert(dtype_of<std::int32_t> == DType::int32);
  static_assert(dtype_of<std::int64_t> == DType::int64);
  static_assert(dtype_of<bool> == DType::boolean);
  // A type that no tensor holds is a compile error, not a guess.
  static_assert(!HasDType<double>);
  static_assert(!HasDType<fp6_e2m3>);
  static_assert(!HasDType<minifloat<formats::bf16.with(Overflow::saturate)>>);
  static_assert(!HasDType<const float>);
  SUCCEED();
}
