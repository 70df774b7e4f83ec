#pragma once
// Program: a random program as data: leaves, calls of operators, what is differentiated and where
// it runs. Its text is what a failure prints and what Between::replay() reads:
//
//   a0 fp32 [4, 6] parameter -1 1 draw 17 view transpose 0 1 view slice 1 2 9 1
//   n0 softmax(a0)
//   n1 linear(n0, a1, -, -) activation=3
//   gradient n1 bf16 -1 1 draw 5
//   where threads3 fills
//
// A leaf is a tensor with the base's shape and numbers that are drawn between two bounds; its views
// are applied one after the other. A call lists its inputs (n2.1: the second result of n2; -: left
// out) and those settings that are not zero; `lengths` gives the first input sequences.

#include <soma/ops/operator.hpp>
#include <soma/tensor/tensor.hpp>
#include <soma/testing/samples.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::testing::detail {

struct ViewStep {
  enum class Kind : std::uint8_t { reshape, transpose, slice, select, broadcast };
  Kind kind = Kind::reshape;
  std::size_t a = 0, b = 0, c = 0, d = 0;  // the numbers of Tensor's function of that name
  Shape shape{};                           // for reshape and broadcast
};

struct Leaf {
  Shape base{};
  DType dtype = DType::fp32;
  std::vector<ViewStep> views{};
  bool parameter = false;
  double low = -1, high = 1;
  std::uint32_t draw = 0;
  std::vector<double> values{};        // if not empty, in place of drawn ones
  std::vector<std::size_t> lengths{};  // of its sequences; empty: none
};

// A leaf, a result of a call, or nothing.
struct Ref {
  enum class Kind : std::uint8_t { none, leaf, call };
  Kind kind = Kind::none;
  std::size_t index = 0, output = 0;
  friend bool operator==(const Ref&, const Ref&) = default;
};

struct Call {
  std::string name;
  std::size_t sample = 0;  // whose settings are the type of `attributes`
  Attributes attributes{};
  std::vector<Ref> inputs{};
  std::vector<std::size_t> lengths{};  // the first input gets these sequences before
};

struct Program {
  std::vector<Leaf> leaves{};
  std::vector<Call> calls{};
  Ref result{};                      // what is differentiated; nothing: forward only
  Leaf given{};                      // its gradient
  std::vector<std::string> where{};  // beside the plain run
};

// The settings of a call of that name, of the right type; used by the reader.
class Settings {
 public:
  virtual ~Settings() = default;
  virtual Attributes of(std::string_view name, std::size_t sample) const = 0;

 protected:
  Settings() = default;
  Settings(const Settings&) = default;
  Settings& operator=(const Settings&) = default;
};

std::string to_string(const Ref& ref);
std::string to_string(const Program& program);
// Error operator.value names the line that cannot be read.
Program parse(std::string_view text, const Settings& settings);

// Error operator.value: a view does not fit, or a call reads what is not there yet.
void check_program(const Program& program);

// The shape after the views.
Shape shape_of(const Leaf& leaf);
Shape shape_after(const Shape& shape, const ViewStep& step);
// The number of the base's element that each element of the leaf is, row-major.
std::vector<std::size_t> places_of(const Leaf& leaf);
Tensor view_of(const Tensor& tensor, const ViewStep& step);

}  // namespace SOMA_NAMESPACE::testing::detail

#ifndef SOMA_DISPATCH
#include <soma/testing/between/impl/program.ipp>
#endif
