#pragma once
// The one way from sums to a mean and a variance, for layer, group, RMS and batch norm, and its
// error bounds.
//
// x is measured from a center m near its mean: with the means d of x - m and q of (x - m)^2, the
// mean is m + d and the variance q - d^2. The first m is the sum of x divided by its number. Where
// 4 d^2 >= q the numbers are nearly equal and m is not good enough: m + d takes its place and the
// pass is repeated. Numbers that are all equal have exactly this number as mean and variance 0 (up
// to 2^24 of them, where the sum of x is finite).
//
// For all others, with u = 2^-24, s the roundings that an element of a sum goes through and one for
// the division, deviation the square root of the variance, x^ = (x - mean) * rstd, and neglecting
// u^2:
//     |error of mean|       <= u (|mean| + 1.2 (s + 2) deviation)
//     |error of variance|   <= 5 (s + 3) u variance
//     |error of rstd|       <= (2.5 (s + 3) + 3) u rstd
//     |error of y|          <= u |gamma| (|mean| rstd + 1.2 (s + 2) + |x^| (2.5 s + 14)) + u |y|
// u |mean| is the rounding of the mean to fp32. Why: without the repetition the mean of |x - m| is
// at most 1.2 deviation, with it the mean of |x - m| is at most deviation + |d|, and m, nearest to
// the mean, is no farther from it than any element, so d^2 <= variance. d errs by s + 2 roundings
// of that mean, q by s + 3 of its own. RMS norm has (s + 3) / 2 + 3 roundings in rstd, and y errs
// by |gamma x^| (s / 2 + 7) u + u |y|. Squares below 2^-149 count as zero.
//
// Batch norm measures each plane (an image's channel) from a center of its own, c, and a channel
// from m: x - m = (x - c) + (c - m). With the deviation p of a plane, |c - m| <= p + |mean of the
// plane - m|. So the mean of the magnitudes of these two parts is at most 4.2 deviation, the mean
// of the parts of their square at most 11.7 variance, and each part has three roundings more. For a
// channel the factors 1.2 (s + 2), 5 (s + 3) and 2.5 (s + 3) above are 4.2 (s + 5), 20 (s + 6) and
// 10 (s + 6), where s counts the roundings in the sum of a plane and those in the sum over images.

#include <soma/numeric/fused.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace SOMA_NAMESPACE {

// True if the center is no good: rest and square are the means of x - center and of its square.
// (Both sides are infinite where equal numbers are so large that the square of the center's error
// overflows.)
template <class Float>
bool center_is_off(Float rest, Float square) {
  return rest != 0 && 4 * rest * rest >= square;
}

// The variance from these means; NaN stays.
template <class Float>
Float variance_of(Float rest, Float square) {
  return (std::max)(fused_multiply_add(-rest, rest, square), Float(0));
}

// 1 / sqrt(variance + epsilon). A variance that is above all numbers says nothing of x: NaN instead
// of 0, which would end as zeros.
template <class Float>
Float rstd_of(Float variance, Float epsilon) {
  return std::isinf(variance) ? std::numeric_limits<Float>::quiet_NaN()
                              : 1 / std::sqrt(variance + epsilon);
}

}  // namespace SOMA_NAMESPACE
