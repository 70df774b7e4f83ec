#pragma once
// The functions of program.hpp.

#include <soma/testing/between/program.hpp>

#include <soma/ops/fields.hpp>
#include <soma/ops/operator.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

inline constexpr std::string_view view_names[] = {"reshape", "transpose", "slice", "select",
                                                  "broadcast"};

// The names of fields with those of the members that they are in: "dropout.draw.seed".
class NamedFields : public FieldVisitor {
 protected:
  SOMA_INLINE void enter(std::string_view name) override;
  SOMA_INLINE void leave() override;
  SOMA_INLINE void found_pointer(std::string_view, const void*) override {}
  std::string full(std::string_view name);

 private:
  std::vector<std::string> within_;
  std::vector<std::string> seen_;
};

SOMA_INLINE void NamedFields::enter(std::string_view name) {
  within_.push_back((within_.empty() ? "" : within_.back()) + std::string(name) + ".");
}

SOMA_INLINE void NamedFields::leave() { within_.pop_back(); }

// Fields of one name, such as the sizes of a shape, are numbered.
SOMA_INLINE std::string NamedFields::full(std::string_view name) {
  std::string result = (within_.empty() ? "" : within_.back()) + std::string(name);
  std::size_t before = 0;
  for (const std::string& other : seen_) before += other == result ? 1u : 0u;
  seen_.push_back(result);
  return before == 0 ? result : result + std::to_string(before);
}

SOMA_INLINE std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

class WriteFields final : public NamedFields {
 public:
  std::string text;

 private:
  SOMA_INLINE void found(const Field& field) override;
};

SOMA_INLINE double field_number(const Field& field) {
  const auto get = [&]<class T>(T value) {
    std::memcpy(&value, field.value, sizeof value);
    return static_cast<double>(value);
  };
  if (field.kind == Field::Kind::floating) return field.bytes == 4 ? get(float{}) : get(double{});
  const bool negative = field.kind == Field::Kind::signed_integer;
  switch (field.bytes) {
    case 1:
      return negative ? get(std::int8_t{}) : get(std::uint8_t{});
    case 2:
      return negative ? get(std::int16_t{}) : get(std::uint16_t{});
    case 4:
      return negative ? get(std::int32_t{}) : get(std::uint32_t{});
    default:
      return negative ? get(std::int64_t{}) : get(std::uint64_t{});
  }
}

SOMA_INLINE void set_field(const Field& field, const std::string& text) {
  const auto set = [&]<class T>(T value) { std::memcpy(field.value, &value, sizeof value); };
  if (field.kind == Field::Kind::floating) {
    const double value = std::strtod(text.c_str(), nullptr);
    return field.bytes == 4 ? set(static_cast<float>(value)) : set(value);
  }
  const char* digits = text.c_str();
  const std::uint64_t value = field.kind == Field::Kind::signed_integer
                                  ? static_cast<std::uint64_t>(std::strtoll(digits, nullptr, 10))
                                  : std::strtoull(digits, nullptr, 10);
  switch (field.bytes) {
    case 1:
      return set(static_cast<std::uint8_t>(value));
    case 2:
      return set(static_cast<std::uint16_t>(value));
    case 4:
      return set(static_cast<std::uint32_t>(value));
    default:
      return set(value);
  }
}

SOMA_INLINE void WriteFields::found(const Field& field) {
  const std::string name = full(field.name);
  if (field_number(field) == 0) return;
  if (field.kind == Field::Kind::floating) {
    text += " " + name + "=" + number_text(field_number(field));
  } else {
    std::uint64_t bits = 0;
    std::memcpy(&bits, field.value, field.bytes);
    text += " " + name + "=" +
            (field.kind == Field::Kind::signed_integer
                 ? std::to_string(static_cast<std::int64_t>(field_number(field)))
                 : std::to_string(bits));
  }
}

class ReadFields final : public NamedFields {
 public:
  explicit ReadFields(const std::vector<std::string>& words) : words_(words) {}

 private:
  SOMA_INLINE void found(const Field& field) override;
  const std::vector<std::string>& words_;
};

SOMA_INLINE void ReadFields::found(const Field& field) {
  const std::string name = full(field.name) + "=";
  std::string value = "0";
  for (const std::string& word : words_)
    if (word.starts_with(name)) value = word.substr(name.size());
  set_field(field, value);
}

// The dimension of concatenate, whose settings are a number.
SOMA_INLINE bool is_number(std::string_view name) { return name == "concatenate"; }

SOMA_INLINE std::string to_string(const Ref& ref) {
  if (ref.kind == Ref::Kind::none) return "-";
  return (ref.kind == Ref::Kind::leaf ? "a" : "n") + std::to_string(ref.index) +
         (ref.output == 0 ? "" : "." + std::to_string(ref.output));
}

SOMA_INLINE std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.rank(); ++i)
    text += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  return text + "]";
}

SOMA_INLINE std::string leaf_text(const Leaf& leaf) {
  std::string text = std::string(soma::to_string(leaf.dtype)) + " " + shape_text(leaf.base);
  if (leaf.parameter) text += " parameter";
  text += " " + number_text(leaf.low) + " " + number_text(leaf.high) + " draw " +
          std::to_string(leaf.draw);
  for (const ViewStep& step : leaf.views) {
    text += " view " + std::string(view_names[static_cast<std::size_t>(step.kind)]);
    const std::size_t numbers[] = {step.a, step.b, step.c, step.d};
    if (step.kind == ViewStep::Kind::reshape || step.kind == ViewStep::Kind::broadcast)
      text += " " + shape_text(step.shape);
    else
      for (std::size_t i = 0; i < (step.kind == ViewStep::Kind::slice ? 4u : 2u); ++i)
        text += " " + std::to_string(numbers[i]);
  }
  if (!leaf.lengths.empty()) text += " lengths";
  for (const std::size_t length : leaf.lengths) text += " " + std::to_string(length);
  if (!leaf.values.empty()) text += " values";
  for (const double value : leaf.values) text += " " + number_text(value);
  return text;
}

SOMA_INLINE std::string to_string(const Program& program) {
  std::string text;
  for (std::size_t i = 0; i < program.leaves.size(); ++i)
    text += "a" + std::to_string(i) + " " + leaf_text(program.leaves[i]) + "\n";
  for (std::size_t i = 0; i < program.calls.size(); ++i) {
    const Call& call = program.calls[i];
    text += "n" + std::to_string(i) + " " + call.name + "(";
    for (std::size_t j = 0; j < call.inputs.size(); ++j)
      text += (j == 0 ? "" : ",") + to_string(call.inputs[j]);
    text += ")";
    if (call.sample != 0) text += " sample=" + std::to_string(call.sample);
    if (!call.lengths.empty()) text += " lengths=";
    for (std::size_t j = 0; j < call.lengths.size(); ++j)
      text += (j == 0 ? "" : ",") + std::to_string(call.lengths[j]);
    if (is_number(call.name)) {
      text += " dimension=" + std::to_string(call.attributes.as<std::size_t>());
    } else {
      WriteFields fields;
      Attributes attributes = call.attributes;
      attributes.visit(fields);
      text += fields.text;
    }
    text += "\n";
  }
  if (program.result.kind != Ref::Kind::none)
    text += "gradient " + to_string(program.result) + " " + leaf_text(program.given) + "\n";
  text += "where";
  for (const std::string& place : program.where) text += " " + place;
  return text + "\n";
}

SOMA_INLINE void refuse_line(std::string_view line) {
  fail(error_id::operator_value, "Between::replay", "line", std::string(line),
       "a line of a program's text");
}

SOMA_INLINE std::size_t count_of(std::string_view text, std::string_view line) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) refuse_line(line);
  return value;
}

SOMA_INLINE Shape read_shape(std::string_view text, std::string_view line) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') refuse_line(line);
  text = text.substr(1, text.size() - 2);
  std::vector<std::size_t> sizes;
  while (!text.empty()) {
    const std::size_t end = (std::min)(text.find(','), text.size());
    sizes.push_back(count_of(text.substr(0, end), line));
    text.remove_prefix((std::min)(end + 1, text.size()));
  }
  return Shape(sizes);
}

SOMA_INLINE Ref read_ref(std::string_view text, std::string_view line) {
  if (text == "-") return {};
  if (text.size() < 2 || (text[0] != 'a' && text[0] != 'n')) refuse_line(line);
  Ref ref{.kind = text[0] == 'a' ? Ref::Kind::leaf : Ref::Kind::call};
  const std::size_t dot = (std::min)(text.find('.'), text.size());
  ref.index = count_of(text.substr(1, dot - 1), line);
  if (dot < text.size()) ref.output = count_of(text.substr(dot + 1), line);
  return ref;
}

SOMA_INLINE Leaf read_leaf(const std::vector<std::string>& words, std::size_t at,
                           std::string_view line) {
  const auto word = [&](std::size_t i) -> const std::string& {
    if (i >= words.size()) refuse_line(line);
    return words[i];
  };
  const auto number = [&](std::size_t i) { return std::strtod(word(i).c_str(), nullptr); };
  Leaf leaf;
  bool known = false;
  for (std::size_t i = 0; i < dtypes.size(); ++i)
    if (soma::to_string(static_cast<DType>(i)) == word(at)) {
      leaf.dtype = static_cast<DType>(i);
      known = true;
    }
  if (!known) refuse_line(line);
  leaf.base = read_shape(word(at + 1), line);
  at += 2;
  if (word(at) == "parameter") {
    leaf.parameter = true;
    ++at;
  }
  leaf.low = number(at);
  leaf.high = number(at + 1);
  if (word(at + 2) != "draw") refuse_line(line);
  leaf.draw = static_cast<std::uint32_t>(count_of(word(at + 3), line));
  at += 4;
  while (at < words.size() && words[at] == "view") {
    ViewStep step;
    std::size_t kind = 0;
    while (kind < std::size(view_names) && view_names[kind] != word(at + 1)) ++kind;
    if (kind == std::size(view_names)) refuse_line(line);
    step.kind = static_cast<ViewStep::Kind>(kind);
    at += 2;
    if (step.kind == ViewStep::Kind::reshape || step.kind == ViewStep::Kind::broadcast) {
      step.shape = read_shape(word(at++), line);
    } else {
      step.a = count_of(word(at), line);
      step.b = count_of(word(at + 1), line);
      at += 2;
      if (step.kind == ViewStep::Kind::slice) {
        step.c = count_of(word(at), line);
        step.d = count_of(word(at + 1), line);
        at += 2;
      }
    }
    leaf.views.push_back(step);
  }
  if (at < words.size() && words[at] == "lengths")
    for (++at; at < words.size() && words[at] != "values"; ++at)
      leaf.lengths.push_back(count_of(words[at], line));
  if (at < words.size() && words[at] == "values")
    for (++at; at < words.size(); ++at) leaf.values.push_back(number(at));
  return leaf;
}

SOMA_INLINE Call read_call(const std::vector<std::string>& words, std::string_view line,
                           const Settings& settings) {
  Call call;
  const std::string_view text = words[1];
  const std::size_t open = text.find('(');
  if (open == text.npos || text.back() != ')') refuse_line(line);
  call.name = text.substr(0, open);
  std::string_view list = text.substr(open + 1, text.size() - open - 2);
  const auto each = [](std::string_view items, auto&& item) {
    while (!items.empty()) {
      const std::size_t end = (std::min)(items.find(','), items.size());
      item(items.substr(0, end));
      items.remove_prefix((std::min)(end + 1, items.size()));
    }
  };
  each(list, [&](std::string_view item) { call.inputs.push_back(read_ref(item, line)); });
  for (const std::string& word : words) {
    if (word.starts_with("sample=")) call.sample = count_of(word.substr(7), line);
    if (word.starts_with("lengths="))
      each(std::string_view(word).substr(8),
           [&](std::string_view item) { call.lengths.push_back(count_of(item, line)); });
  }
  if (is_number(call.name)) {
    std::size_t dimension = 0;
    for (const std::string& word : words)
      if (word.starts_with("dimension=")) dimension = count_of(word.substr(10), line);
    call.attributes = dimension;
    return call;
  }
  call.attributes = settings.of(call.name, call.sample);
  ReadFields fields(words);
  call.attributes.visit(fields);
  return call;
}

SOMA_INLINE Program parse(std::string_view text, const Settings& settings) {
  Program program;
  while (!text.empty()) {
    const std::size_t end = (std::min)(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix((std::min)(end + 1, text.size()));
    std::vector<std::string> words;
    for (std::size_t i = 0; i < line.size();) {
      const std::size_t stop = (std::min)(line.find(' ', i), line.size());
      if (stop > i) words.emplace_back(line.substr(i, stop - i));
      i = stop + 1;
    }
    if (words.empty()) continue;
    if (words[0] == "where")
      program.where.assign(words.begin() + 1, words.end());
    else if (words.size() < 2)
      refuse_line(line);
    else if (words[0] == "gradient") {
      program.result = read_ref(words[1], line);
      program.given = read_leaf(words, 2, line);
    } else if (words[0] == "a" + std::to_string(program.leaves.size()))
      program.leaves.push_back(read_leaf(words, 1, line));
    else if (words[0] == "n" + std::to_string(program.calls.size()))
      program.calls.push_back(read_call(words, line, settings));
    else
      refuse_line(line);
  }
  return program;
}

SOMA_INLINE bool step_fits(const Shape& shape, const ViewStep& step) {
  const std::size_t rank = shape.rank();
  switch (step.kind) {
    case ViewStep::Kind::reshape:
      return step.shape.elements() == shape.elements();
    case ViewStep::Kind::transpose:
      return step.a < rank && step.b < rank;
    case ViewStep::Kind::slice:
      return step.a < rank && step.b <= step.c && step.c <= shape[step.a] && step.d > 0;
    case ViewStep::Kind::select:
      return step.a < rank && step.b < shape[step.a];
    case ViewStep::Kind::broadcast:
      break;
  }
  if (rank > step.shape.rank()) return false;
  for (std::size_t d = 0; d < rank; ++d)
    if (shape[d] != 1 && shape[d] != step.shape[step.shape.rank() - rank + d]) return false;
  return true;
}

SOMA_INLINE void check_program(const Program& program) {
  const auto refuse = [](const std::string& what, const std::string& given) {
    fail(error_id::operator_value, "Between", what, given, "a program that can run");
  };
  const auto check_leaf = [&](const Leaf& leaf, const std::string& name) {
    Shape shape = leaf.base;
    for (const ViewStep& step : leaf.views) {
      if (!step_fits(shape, step)) refuse(name, leaf_text(leaf));
      shape = shape_after(shape, step);
    }
    std::size_t rows = 0;
    for (const std::size_t length : leaf.lengths) rows += length;
    if (!leaf.lengths.empty() && (shape.rank() == 0 || rows != shape[0]))
      refuse(name, leaf_text(leaf));
  };
  for (std::size_t i = 0; i < program.leaves.size(); ++i)
    check_leaf(program.leaves[i], "leaf a" + std::to_string(i));
  check_leaf(program.given, "gradient");
  for (std::size_t i = 0; i < program.calls.size(); ++i)
    for (const Ref& ref : program.calls[i].inputs)
      if ((ref.kind == Ref::Kind::leaf && ref.index >= program.leaves.size()) ||
          (ref.kind == Ref::Kind::call && ref.index >= i))
        refuse("call n" + std::to_string(i), to_string(ref));
  if (program.result.kind == Ref::Kind::leaf ||
      (program.result.kind == Ref::Kind::call && program.result.index >= program.calls.size()))
    refuse("gradient", to_string(program.result));
}

SOMA_INLINE Shape shape_after(const Shape& shape, const ViewStep& step) {
  switch (step.kind) {
    case ViewStep::Kind::transpose:
      return shape.exchanged(step.a, step.b);
    case ViewStep::Kind::slice:
      return shape.with(step.a, (step.c - step.b + step.d - 1) / step.d);
    case ViewStep::Kind::select:
      return shape.without(step.a);
    default:
      return step.shape;
  }
}

SOMA_INLINE std::vector<std::size_t> places_of(const Leaf& leaf) {
  Shape shape = leaf.base;
  std::vector<std::size_t> places(shape.elements());
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = i;
  for (const ViewStep& step : leaf.views) {
    const Shape next = shape_after(shape, step);
    const Strides strides = shape.strides();
    std::vector<std::size_t> moved;
    for (std::size_t i = 0; i < next.elements(); ++i) {
      std::array<std::size_t, max_rank> at{};
      for (std::size_t rest = i, d = next.rank(); d-- > 0; rest /= next[d]) at[d] = rest % next[d];
      std::size_t before = 0;  // the same element, before the step
      if (step.kind == ViewStep::Kind::transpose) std::swap(at[step.a], at[step.b]);
      if (step.kind == ViewStep::Kind::slice) at[step.a] = step.b + at[step.a] * step.d;
      for (std::size_t d = 0, e = 0; d < shape.rank(); ++d) switch (step.kind) {
          case ViewStep::Kind::select:
            before += (d == step.a ? step.b : at[e++]) * strides[d];
            break;
          case ViewStep::Kind::broadcast:
            before += (shape[d] == 1 ? 0 : at[next.rank() - shape.rank() + d]) * strides[d];
            break;
          default:
            before += at[d] * strides[d];
        }
      moved.push_back(places[step.kind == ViewStep::Kind::reshape ? i : before]);
    }
    places = std::move(moved);
    shape = next;
  }
  return places;
}

SOMA_INLINE Tensor view_of(const Tensor& tensor, const ViewStep& step) {
  switch (step.kind) {
    case ViewStep::Kind::reshape:
      return tensor.reshape(step.shape);
    case ViewStep::Kind::transpose:
      return tensor.transpose(step.a, step.b);
    case ViewStep::Kind::slice:
      return tensor.slice(step.a, step.b, step.c, step.d);
    case ViewStep::Kind::select:
      return tensor.select(step.a, step.b);
    default:
      return tensor.broadcast_to(step.shape);
  }
}

SOMA_INLINE Shape shape_of(const Leaf& leaf) {
  Shape shape = leaf.base;
  for (const ViewStep& step : leaf.views) shape = shape_after(shape, step);
  return shape;
}

}  // namespace SOMA_NAMESPACE::testing::detail
