#pragma once
// Every error id of the library. An id never changes its meaning and is never reused;
// docs/errors.md explains each.

#include <soma/base/config.hpp>

#include <string_view>

namespace soma {

// A stable name such as "convert.size_mismatch": what a program compares and a user searches for.
struct ErrorId {
  std::string_view name;
  friend constexpr bool operator==(ErrorId, ErrorId) = default;
};

namespace error_id {

inline constexpr ErrorId size_overflow{"base.size_overflow"};
inline constexpr ErrorId out_of_memory{"memory.exhausted"};

inline constexpr ErrorId unknown_format{"format.unknown_name"};
inline constexpr ErrorId impossible_format{"format.impossible"};
inline constexpr ErrorId random_bits{"rounding.random_bits"};
inline constexpr ErrorId environment_value{"rounding.environment"};
inline constexpr ErrorId index_range{"random.index_range"};
inline constexpr ErrorId probability{"random.probability"};

inline constexpr ErrorId size_mismatch{"convert.size_mismatch"};
inline constexpr ErrorId forbidden_overlap{"convert.overlap"};
inline constexpr ErrorId bad_layout{"convert.layout"};
inline constexpr ErrorId bad_scaling{"scaling.invalid"};
inline constexpr ErrorId scale_count{"scaling.count"};

inline constexpr ErrorId executor_width{"executor.width"};
inline constexpr ErrorId unknown_target{"context.unknown_target"};
inline constexpr ErrorId math_needs_fma{"context.portable_needs_fma"};
inline constexpr ErrorId thread_start{"executor.thread_start"};

inline constexpr ErrorId xtensor_layout{"xtensor.layout"};

}  // namespace error_id
}  // namespace soma
