#pragma once
// save() of FastLinear, and its reading. A compact folder has its rows in the order of their slots:
//   linear.steps         uint8: the distance of each row's slot from the one before, as digits of
//                        base 255: a 255 adds itself and goes on
//   linear.fingerprints  uint16
//   linear.idf, linear.g fp16; the idf of parts of words is negative
//   linear.weight        int8 [rows, columns], times
//   linear.scales        bf16 [rows]; where there is one column, the weights themselves
//   bag.table            int8 [rows, width], times bag.scales, bf16 [rows]
// and in fp32 linear.bias, linear.base, linear.offsets (with class weights), bag.weight and
// bag.bias. With precision fp32 all are as they were trained, in the order of rows.

#include <soma/models/fast_linear.hpp>

#include <soma/base/error.hpp>
#include <soma/numeric/minifloat.hpp>
#include <soma/ops/sparse/table.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

namespace detail {

// Rows in 8 bits: code * scale. A scale in bf16 is rounded up, so that no code is above 127.
struct ByteRows {
  std::vector<std::int8_t> codes{};
  std::vector<bf16> scales{};
};

inline ByteRows byte_rows(const std::vector<float>& values, std::size_t rows, std::size_t columns) {
  ByteRows result;
  for (std::size_t row = 0; row < rows; ++row) {
    const float* own = values.data() + row * columns;
    if (columns == 1) {
      result.scales.push_back(bf16(*own));
      continue;
    }
    float most = 0;
    for (std::size_t c = 0; c < columns; ++c) most = (std::max)(most, std::abs(own[c]));
    bf16 scale(most / 127);
    if (static_cast<float>(scale) * 127 < most) scale = bf16::from_code(scale.code() + 1);
    const auto unit = static_cast<float>(scale);
    for (std::size_t c = 0; c < columns; ++c)
      result.codes.push_back(static_cast<std::int8_t>(unit > 0 ? std::round(own[c] / unit) : 0.0f));
    result.scales.push_back(scale);
  }
  return result;
}

inline std::vector<float> rows_of_bytes(const ByteRows& rows, std::size_t columns) {
  std::vector<float> values;
  values.reserve(rows.scales.size() * columns);
  for (std::size_t row = 0; row < rows.scales.size(); ++row) {
    const auto unit = static_cast<float>(rows.scales[row]);
    if (columns == 1) values.push_back(unit);
    for (std::size_t c = 0; columns > 1 && c < columns; ++c)
      values.push_back(unit * static_cast<float>(rows.codes[row * columns + c]));
  }
  return values;
}

// Slots in ascending order as bytes, and back. A damaged list may be too short or too long.
inline std::vector<std::uint8_t> steps_of(const std::vector<std::int32_t>& homes) {
  std::vector<std::uint8_t> steps;
  std::int32_t before = 0;
  for (const std::int32_t home : homes) {
    for (; home - before >= 255; before += 255) steps.push_back(255);
    steps.push_back(static_cast<std::uint8_t>(home - before));
    before = home;
  }
  return steps;
}
inline std::vector<std::int32_t> homes_of(const std::vector<std::uint8_t>& steps) {
  std::vector<std::int32_t> homes;
  std::int64_t at = 0;
  for (const std::uint8_t step : steps) {
    at = (std::min)(at + step, std::int64_t{INT32_MAX});
    if (step != 255) homes.push_back(static_cast<std::int32_t>(at));
  }
  return homes;
}

template <class T>
std::vector<T> picked(const std::vector<T>& values, const std::vector<std::size_t>& rows,
                      std::size_t columns = 1) {
  std::vector<T> result;
  result.reserve(rows.size() * columns);
  for (const std::size_t row : rows)
    result.insert(result.end(), values.begin() + static_cast<std::ptrdiff_t>(row * columns),
                  values.begin() + static_cast<std::ptrdiff_t>((row + 1) * columns));
  return result;
}

template <class T>
void put(Context& context, StateDict& state, const char* name, const std::vector<T>& values,
         const Shape& shape) {
  state.set(name, Tensor::from(context, std::span<const T>(values.data(), values.size()), shape));
}

}  // namespace detail

SOMA_INLINE void fields(FieldVisitor& visitor, FastSaveOptions& options) {
  visitor.option("fp32", options.fp32);
  visitor.option("keep", options.keep, NumberRange::within(0, 1));
}

// The rows that a folder keeps, in the order of rows: all of an exact one.
SOMA_INLINE std::vector<std::size_t> FastLinear::kept_rows(const std::vector<float>& weights,
                                                           const FastSaveOptions& options) const {
  const std::size_t rows = features_.rows(), width = bag_ ? bag_->width : 0;
  std::vector<std::size_t> kept;
  std::vector<double> sizes(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::size_t c = 0; c < columns(); ++c) {
      const auto w = static_cast<double>(weights[row * columns() + c]);
      sum += w * w;
    }
    sizes[row] = sum;
    bool any = sum > 0;
    for (std::size_t k = 0; k < width && !any; ++k) any = bag_->table[row * width + k] != 0;
    if (any || options.fp32) kept.push_back(row);
  }
  if (options.keep >= 1) return kept;
  const auto count =
      static_cast<std::size_t>(std::ceil(options.keep * static_cast<double>(kept.size())));
  std::stable_sort(kept.begin(), kept.end(),
                   [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  kept.resize(count);
  std::sort(kept.begin(), kept.end());
  return kept;
}

SOMA_INLINE void FastLinear::save(Record& record, StateDict& state,
                                  const FastSaveOptions& options) const {
  check_ranges("FastClassifier::save", options, error_id::config_value);
  if (!(options.keep > 0))
    fail(error_id::config_value, "FastClassifier::save", "keep", std::to_string(options.keep),
         "above 0, up to 1");
  using detail::picked;
  const text::CountedFeatures::Table& table = features_.table();
  record.set("linear.precision", options.fp32 ? "fp32" : "int8");
  features_.describe(record, "linear.");
  record.set("linear.factor", factor_);
  record.set("linear.several", kind_ != data::LabelKind::one);
  record.set("bag.width", bag_ ? bag_->width : 0);
  record.set("bag.share", bag_share_);
  const std::size_t width = bag_ ? bag_->width : 0;
  std::vector<float> weights(features_.rows() * columns());
  for (std::size_t row = 0; row < features_.rows(); ++row)
    for (std::size_t c = 0; c < columns(); ++c)
      weights[row * columns() + c] = model_.weight(row, c);
  std::vector<std::size_t> kept = kept_rows(weights, options);
  const Shape rows{kept.size()};
  const auto put = [&](const char* name, const auto& values, const Shape& shape) {
    detail::put(context_, state, name, values, shape);
  };
  if (options.fp32) {
    put("linear.places", picked(table.homes, kept), rows);
    const std::vector<std::int32_t> fingerprints(table.fingerprints.begin(),
                                                 table.fingerprints.end());
    put("linear.fingerprints", picked(fingerprints, kept), rows);
    put("linear.idf", picked(table.idf, kept), rows);
    put("linear.g", picked(table.g, kept), rows);
    const std::vector<std::int32_t> of_part(table.of_part.begin(), table.of_part.end());
    put("linear.of_part", picked(of_part, kept), rows);
    put("linear.weight", picked(weights, kept, columns()), Shape{kept.size(), columns()});
    if (bag_) put("bag.table", picked(bag_->table, kept, width), Shape{kept.size(), width});
  } else {
    std::stable_sort(kept.begin(), kept.end(),
                     [&](std::size_t a, std::size_t b) { return table.homes[a] < table.homes[b]; });
    const std::vector<std::uint8_t> steps = detail::steps_of(picked(table.homes, kept));
    put("linear.steps", steps, Shape{steps.size()});
    put("linear.fingerprints", picked(table.fingerprints, kept), rows);
    std::vector<fp16> idf, g;
    for (const std::size_t row : kept) {
      idf.emplace_back(table.of_part[row] != 0 ? -table.idf[row] : table.idf[row]);
      g.emplace_back(table.g[row]);
    }
    put("linear.idf", idf, rows);
    put("linear.g", g, rows);
    const auto put_rows = [&](const char* codes, const char* scales,
                              const std::vector<float>& values, std::size_t count) {
      const detail::ByteRows bytes =
          detail::byte_rows(picked(values, kept, count), kept.size(), count);
      if (count != 1) put(codes, bytes.codes, Shape{kept.size(), count});
      put(scales, bytes.scales, rows);
    };
    put_rows("linear.weight", "linear.scales", weights, columns());
    if (bag_) put_rows("bag.table", "bag.scales", bag_->table, width);
  }
  put("linear.bias", std::vector<float>(model_.bias.begin(), model_.bias.begin() + columns()),
      Shape{columns()});
  put("linear.base", base_, Shape{classes_});
  if (!offsets_.empty()) put("linear.offsets", offsets_, Shape{classes_});
  if (!bag_) return;
  put("bag.weight", bag_->weight, Shape{classes_, width});
  put("bag.bias", bag_->bias, Shape{classes_});
}

// Reads the tensors of a folder: each has one type and one shape.
struct FastLinear::Stored {
  static constexpr std::string_view operation = "FastClassifier::from_folder";
  const StateDict& state;
  std::string_view folder;

  void check(bool fits, const char* what, const std::string& got, const std::string& wanted) const {
    if (!fits)
      fail(error_id::config_value, operation,
           std::string(what).append(" of ").append(soma::quoted(folder)), got, wanted);
  }
  const Tensor& find(const char* name) const {
    const Tensor* found = state.find(name);
    if (found == nullptr)
      fail(error_id::missing_name, operation, "model.safetensors of " + soma::quoted(folder),
           "without " + soma::quoted(name), "a model that was saved whole");
    return *found;
  }
  template <class T>
  std::vector<T> list(const char* name, const Shape& shape) const {
    const Tensor& found = find(name);
    if (found.dtype() != dtype_of<T>)
      fail(error_id::state_dtype, operation, soma::quoted(name), found.describe(),
           to_string(dtype_of<T>));
    if (found.shape() != shape)
      fail(error_id::state_shape, operation, soma::quoted(name), found.describe(),
           to_string(shape));
    const auto span = found.span<T>();
    return std::vector<T>(span.begin(), span.end());
  }
  std::size_t count(const char* name) const { return find(name).elements(); }
  std::vector<float> finite(const char* name, const Shape& shape) const {
    std::vector<float> values = list<float>(name, shape);
    for (const float value : values)
      check(std::isfinite(value), name, std::to_string(value), "finite numbers");
    return values;
  }
  std::vector<float> byte_rows(const char* codes, const char* scales, std::size_t rows,
                               std::size_t columns) const {
    detail::ByteRows bytes{.scales = list<bf16>(scales, Shape{rows})};
    if (columns != 1) bytes.codes = list<std::int8_t>(codes, Shape{rows, columns});
    for (const bf16 scale : bytes.scales)
      check(std::isfinite(static_cast<float>(scale)) &&
                (columns == 1 || static_cast<float>(scale) >= 0),
            scales, std::to_string(static_cast<float>(scale)), "finite numbers, at least 0");
    return detail::rows_of_bytes(bytes, columns);
  }

  // Fills in the table's rows, the weights [rows, columns] and the bag's rows [rows, width].
  void read_exact(text::CountedFeatures::Table& table, std::vector<float>& weights,
                  std::vector<float>& bag, std::size_t columns, std::size_t width) const {
    const std::size_t rows = count("linear.places");
    table.homes = list<std::int32_t>("linear.places", Shape{rows});
    table.idf = list<float>("linear.idf", Shape{rows});
    table.g = list<float>("linear.g", Shape{rows});
    for (const std::int32_t one : list<std::int32_t>("linear.fingerprints", Shape{rows})) {
      check(one >= 0 && one <= 0xFFFF, "linear.fingerprints", std::to_string(one), "0 to 65535");
      table.fingerprints.push_back(static_cast<std::uint16_t>(one));
    }
    for (const std::int32_t one : list<std::int32_t>("linear.of_part", Shape{rows})) {
      check(one == 0 || one == 1, "linear.of_part", std::to_string(one), "0 or 1");
      table.of_part.push_back(static_cast<std::uint8_t>(one));
    }
    weights = finite("linear.weight", Shape{rows, columns});
    if (width != 0) bag = finite("bag.table", Shape{rows, width});
  }
  void read_compact(text::CountedFeatures::Table& table, std::vector<float>& weights,
                    std::vector<float>& bag, std::size_t columns, std::size_t width) const {
    const std::vector<std::int32_t> homes =
        detail::homes_of(list<std::uint8_t>("linear.steps", Shape{count("linear.steps")}));
    const std::size_t rows = homes.size();
    const std::vector<fp16> idf = list<fp16>("linear.idf", Shape{rows});
    const std::vector<fp16> g = list<fp16>("linear.g", Shape{rows});
    // Frequent rows first: those are together in the cache, and at the fronts of their chains.
    std::vector<std::size_t> order(rows);
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto rarity = [&](std::size_t row) { return std::abs(static_cast<float>(idf[row])); };
    for (std::size_t row = 0; row < rows; ++row)
      check(std::isfinite(rarity(row)), "linear.idf", std::to_string(rarity(row)),
            "finite numbers");
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return rarity(a) < rarity(b); });
    using detail::picked;
    table.homes = picked(homes, order);
    table.fingerprints = picked(list<std::uint16_t>("linear.fingerprints", Shape{rows}), order);
    for (const std::size_t row : order) {
      table.idf.push_back(rarity(row));
      table.g.push_back(static_cast<float>(g[row]));
      table.of_part.push_back(static_cast<float>(idf[row]) < 0 ? 1 : 0);
    }
    weights = picked(byte_rows("linear.weight", "linear.scales", rows, columns), order, columns);
    if (width != 0) bag = picked(byte_rows("bag.table", "bag.scales", rows, width), order, width);
  }
};

SOMA_INLINE FastLinear::FastLinear(Context& context, const Record& record, const StateDict& state,
                                   std::size_t classes, std::string_view folder)
    : context_(context), classes_(classes), model_(context.heap()) {
  static_cast<void>(sparse_table(context, Stored::operation));
  const Stored stored{state, folder};
  kind_ = record.boolean("linear.several") ? data::LabelKind::several : data::LabelKind::one;
  factor_ = record.number("linear.factor");
  stored.check(std::isfinite(factor_) && factor_ > 0, "linear.factor", std::to_string(factor_),
               "above 0");
  // The first folders of this kind have no precision and no bag.
  const std::string precision =
      record.contains("linear.precision") ? record.text("linear.precision") : "fp32";
  stored.check(precision == "fp32" || precision == "int8", "linear.precision",
               soma::quoted(precision), "int8 or fp32");
  const std::size_t width = record.contains("bag.width") ? record.count("bag.width") : 0;
  bag_share_ = width != 0 ? record.number("bag.share") : 0;
  stored.check(std::isfinite(bag_share_) && bag_share_ >= 0, "bag.share",
               std::to_string(bag_share_), "a finite number, at least 0");
  stored.check(width <= 4096, "bag.width", std::to_string(width), "0 to 4096");
  text::CountedFeatures::Table table;
  std::vector<float> weights, bag;
  if (precision == "fp32")
    stored.read_exact(table, weights, bag, columns(), width);
  else
    stored.read_compact(table, weights, bag, columns(), width);
  features_ = text::CountedFeatures::of_record(record, "linear.", std::move(table));
  base_ = stored.finite("linear.base", Shape{classes});
  if (state.contains("linear.offsets")) offsets_ = stored.finite("linear.offsets", Shape{classes});
  model_ = optim::PanelModel::of_rows(context.heap(), features_.rows(), columns(), weights,
                                      stored.finite("linear.bias", Shape{columns()}));
  if (width != 0)
    bag_ = FastBag{.features = features_.rows(),
                   .width = width,
                   .classes = classes,
                   .table = std::move(bag),
                   .weight = stored.finite("bag.weight", Shape{classes, width}),
                   .bias = stored.finite("bag.bias", Shape{classes})};
  fitted_.factor = factor_;
  fitted_.features = features_.rows();
  fitted_.bag_width = width;
  fitted_.kind = kind_;
}

}  // namespace SOMA_NAMESPACE::models
