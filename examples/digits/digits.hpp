// Generated pictures of digits to learn from: 16 x 16 grey values (or more), strokes of a pen with
// a random hand.
//
// An image is a pure function of (seed, index), to the last bit on every machine (see product()),
// so a training set and a test set are two seeds, and neither has to be stored. Its digit is index
// % 10. Shift, size, slant, turn, bend, width of the pen, contrast and noise are random, and every
// other image on average is bright on dark: a weighted sum of grey values that rises with a digit
// falls with its negative, so a linear classifier gets a third right at best, while a small network
// learns the task from some thousand images.
#pragma once

#include <soma/numeric/draw.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace digits {

inline constexpr std::size_t side = 16, pixels = side * side;
inline constexpr int classes = 10;

// Two floats multiplied without rounding: a double holds all 48 bits. So a compiler may fuse the
// product with the sum around it (-ffp-contract) or not: the sum is the same everywhere. The
// formulas below add products in double and round to float when they store.
constexpr double product(float a, float b) {
  return static_cast<double>(a) * static_cast<double>(b);
}

// A piece of a stroke: a quadratic Bezier curve. x runs right and y down, both from -10 to 10.
struct Curve {
  float from_x, from_y, by_x, by_y, to_x, to_y;
};

constexpr Curve line(float from_x, float from_y, float to_x, float to_y) {
  return {from_x, from_y, (from_x + to_x) / 2, (from_y + to_y) / 2, to_x, to_y};
}

inline constexpr Curve zero[] = {
    {0, -10, 7, -10, 7, 0}, {7, 0, 7, 10, 0, 10}, {0, 10, -7, 10, -7, 0}, {-7, 0, -7, -10, 0, -10}};
inline constexpr Curve one[] = {line(-4, -6, 1, -10), line(1, -10, 1, 10)};
inline constexpr Curve two[] = {
    {-6, -6, -5, -10, 0, -10}, {0, -10, 6, -10, 6, -5}, {6, -5, 6, 0, -6, 10}, line(-6, 10, 7, 10)};
inline constexpr Curve three[] = {{-6, -8, -3, -10, 0, -10}, {0, -10, 6, -10, 6, -5},
                                  {6, -5, 6, -1, -2, -1},    {-2, -1, 7, -1, 7, 4},
                                  {7, 4, 7, 10, 0, 10},      {0, 10, -4, 10, -6, 7}};
inline constexpr Curve four[] = {line(3, -10, -7, 4), line(-7, 4, 7, 4), line(3, -10, 3, 10)};
inline constexpr Curve five[] = {line(5, -10, -5, -10),   line(-5, -10, -5, -1),
                                 {-5, -1, -3, -3, 0, -3}, {0, -3, 7, -3, 7, 3},
                                 {7, 3, 7, 10, 0, 10},    {0, 10, -4, 10, -6, 7}};
inline constexpr Curve six[] = {{4, -10, -6, -7, -6, 3},
                                {-6, 3, -6, 10, 0, 10},
                                {0, 10, 6, 10, 6, 4},
                                {6, 4, 6, -2, 0, -2},
                                {0, -2, -6, -2, -6, 3}};
inline constexpr Curve seven[] = {line(-6, -10, 6, -10), {6, -10, 0, 0, -2, 10}};
inline constexpr Curve eight[] = {{0, -10, 5, -10, 5, -5}, {5, -5, 5, -1, 0, -1},
                                  {0, -1, -5, -1, -5, -5}, {-5, -5, -5, -10, 0, -10},
                                  {0, -1, 6, -1, 6, 5},    {6, 5, 6, 10, 0, 10},
                                  {0, 10, -6, 10, -6, 5},  {-6, 5, -6, -1, 0, -1}};
inline constexpr Curve nine[] = {{-4, 10, 6, 7, 6, -3},
                                 {6, -3, 6, -10, 0, -10},
                                 {0, -10, -6, -10, -6, -4},
                                 {-6, -4, -6, 2, 0, 2},
                                 {0, 2, 6, 2, 6, -3}};
inline constexpr std::array<std::span<const Curve>, classes> glyphs = {
    zero, one, two, three, four, five, six, seven, eight, nine};

struct Point {
  float x, y;
};

// The random parameters of one image. Lengths are pixels, grey values 0 to 1.
struct Hand {
  float shift_x, shift_y;       // moves the centre
  float width, height;          // half of the glyph's width and height
  float slant, turn;            // x moved by y, and y by x
  float bend_x, bend_y, taper;  // the rest of a smooth bend
  float pen;                    // half of a stroke's width
  float paper, ink, noise;

  Point place(float x, float y) const {
    constexpr double centre = side / 2.0;
    x /= 10, y /= 10;
    const auto arch_x = static_cast<float>(product(y, y) - 0.5);
    const auto arch_y = static_cast<float>(product(x, x) - 0.5);
    const auto wide = static_cast<float>(1 + product(taper, y));
    const auto bent_x =
        static_cast<float>(product(x, wide) + product(bend_x, arch_x) + product(slant, y));
    const auto bent_y = static_cast<float>(y + product(bend_y, arch_y) + product(turn, x));
    return {static_cast<float>(centre + shift_x + product(width, bent_x)),
            static_cast<float>(centre + shift_y + product(height, bent_y))};
  }
};

inline Hand random_hand(std::uint64_t seed, std::uint64_t index) {
  soma::Draw draw{.seed = seed, .stream = soma::stream_id("digits", "hand"), .index = index * 16};
  const auto between = [&draw](float low, float high) {
    const float u = static_cast<float>(soma::random_word(draw) >> 8) * 0x1p-24f;
    ++draw.index;
    return static_cast<float>(low + product(high - low, u));
  };
  Hand hand;
  hand.shift_x = between(-1.0f, 1.0f);
  hand.shift_y = between(-0.75f, 0.75f);
  hand.width = between(4.0f, 5.75f);
  hand.height = between(5.25f, 6.5f);
  hand.slant = between(-0.3f, 0.3f);
  hand.turn = between(-0.12f, 0.12f);
  hand.bend_x = between(-0.15f, 0.15f);
  hand.bend_y = between(-0.1f, 0.1f);
  hand.taper = between(-0.15f, 0.15f);
  hand.pen = between(0.4f, 1.1f);
  hand.paper = between(0.0f, 0.3f);
  hand.ink = hand.paper + between(0.4f, 0.7f);
  hand.noise = between(0.03f, 0.09f);
  if (between(0.0f, 1.0f) < 0.5f) std::swap(hand.paper, hand.ink);
  return hand;
}

inline double squared_distance(Point pixel, Point from, Point to) {
  const float along_x = to.x - from.x, along_y = to.y - from.y;
  const float away_x = pixel.x - from.x, away_y = pixel.y - from.y;
  const double squared_length = product(along_x, along_x) + product(along_y, along_y);
  const double nearest =
      (product(away_x, along_x) + product(away_y, along_y)) / std::max(squared_length, 1e-6);
  const auto t = static_cast<float>(std::clamp(nearest, 0.0, 1.0));
  const auto x = static_cast<float>(away_x - product(t, along_x));
  const auto y = static_cast<float>(away_y - product(t, along_y));
  return product(x, x) + product(y, y);
}

// Turns each curve of the strokes into a chain of short lines.
inline std::vector<std::array<Point, 2>> strokes(const Hand& hand, int digit) {
  constexpr int parts = 5;
  std::vector<std::array<Point, 2>> lines;
  for (const Curve& curve : glyphs[static_cast<std::size_t>(digit)]) {
    Point last{};
    for (int part = 0; part <= parts; ++part) {
      const float t = static_cast<float>(part) / parts, s = 1 - t;
      const float from = s * s, by = 2 * s * t, to = t * t;
      const double x =
          product(from, curve.from_x) + product(by, curve.by_x) + product(to, curve.to_x);
      const double y =
          product(from, curve.from_y) + product(by, curve.by_y) + product(to, curve.to_y);
      const Point next = hand.place(static_cast<float>(x), static_cast<float>(y));
      if (part > 0) lines.push_back({last, next});
      last = next;
    }
  }
  return lines;
}

constexpr std::int32_t label(std::uint64_t index) {
  return static_cast<std::int32_t>(index % classes);
}

// Draws image `index` of the stream `seed`, row by row: size * size grey values.
template <std::size_t size = side>
void draw_image(std::uint64_t seed, std::uint64_t index, std::span<float, size * size> image) {
  constexpr float step = static_cast<float>(side) / static_cast<float>(size);
  const Hand hand = random_hand(seed, index);
  const auto lines = strokes(hand, label(index));
  const soma::Draw noise{
      .seed = seed, .stream = soma::stream_id("digits", "noise"), .index = index * size * size};
  for (std::size_t i = 0; i < size * size; ++i) {
    const Point pixel{(static_cast<float>(i % size) + 0.5f) * step,
                      (static_cast<float>(i / size) + 0.5f) * step};
    double nearest = 1e9;
    for (const auto& [from, to] : lines)
      nearest = std::min(nearest, squared_distance(pixel, from, to));
    // A pixel becomes grey if the stroke's edge halves the pixel.
    const auto distance = static_cast<float>(std::sqrt(nearest));
    const float cover = std::clamp(hand.pen + 0.5f - distance, 0.0f, 1.0f);
    // The sum of four bytes is nearly normal, with mean 510 and standard deviation 147.8.
    const std::uint32_t word = soma::random_word(noise, i);
    const auto bytes = (word & 255u) + (word >> 8 & 255u) + (word >> 16 & 255u) + (word >> 24);
    const float grain = (static_cast<float>(bytes) - 510.0f) / 147.8f;
    const double grey =
        hand.paper + product(hand.ink - hand.paper, cover) + product(hand.noise, grain);
    image[i] = std::clamp(static_cast<float>(grey), 0.0f, 1.0f);
  }
}

struct Digits {
  std::vector<float> images;         // [count, size, size]
  std::vector<std::int32_t> labels;  // [count]
};

// Images first .. first + count - 1 of the stream; all digits are equally frequent if count is a
// multiple of ten.
template <std::size_t size = side>
Digits make_digits(std::size_t count, std::uint64_t seed, std::uint64_t first = 0) {
  constexpr std::size_t each = size * size;
  Digits made{std::vector<float>(count * each), std::vector<std::int32_t>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    draw_image<size>(seed, first + i, std::span<float, each>(made.images.data() + i * each, each));
    made.labels[i] = label(first + i);
  }
  return made;
}

}  // namespace digits
