// The messages of check_operator: each mistake in an operator has a message of its own.

#include <soma/soma.hpp>
#include <soma/testing.hpp>

#include "catch.hpp"

#include <cstddef>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;

namespace {

// The sum of each row, twice: right in every respect.
void row_shape(const ShapeCall& call) {
  detail::check_fp32("test::rows", "x", call.inputs[0]);
  call.outputs[0] = {Shape{call.inputs[0].size(0)}, DType::fp32};
}
void row_host(const OperatorCall& call) {
  const View<const float> x = call.inputs[0].view<float>();
  const View<float> y = call.outputs[0].mutable_view<float>();
  for (std::size_t r = 0; r < x.shape[0]; ++r) {
    y(r) = 0;
    for (std::size_t c = 0; c < x.shape[1]; ++c) y(r) += 2 * x(r, c);
  }
}
template <int factor>
void row_gradient(const GradientCall& call) {
  const View<const float> dy = call.output_gradients[0].view<float>();
  const Tensor gradient = Tensor::empty(call.context, call.inputs[0].shape());
  const View<float> dx = gradient.mutable_view<float>();
  for (std::size_t r = 0; r < dx.shape[0]; ++r)
    for (std::size_t c = 0; c < dx.shape[1]; ++c) dx(r, c) = factor * dy(r);
  call.input_gradients[0].values = gradient;
}
OperatorSamples row_samples() {
  OperatorSamples samples;
  samples.samples = {{.name = "[4, 3]", .inputs = {{.shape = {4, 3}, .low = 1, .high = 2}}}};
  return samples;
}
std::vector<ReferenceTensor> row_reference(const Sample&, const std::vector<ReferenceTensor>& in) {
  ReferenceTensor y{Shape{in[0].shape[0]}, std::vector<double>(in[0].shape[0])};
  for (std::size_t i = 0; i < in[0].values.size(); ++i)
    y.values[i / in[0].shape[1]] += 2 * in[0].values[i];
  return {y};
}
OperatorSamples row_samples_with_reference() {
  OperatorSamples samples = row_samples();
  samples.samples[0].error = 4 * 0x1p-24;
  samples.samples[0].gradient_error = 4 * 0x1p-24;
  samples.reference = &row_reference;
  return samples;
}

CustomOperator<> rows() {
  return {.shape = &row_shape,
          .host = &row_host,
          .gradient = &row_gradient<2>,
          .samples = &row_samples,
          .as_given = true};
}

// The same with one mistake each.

void too_many_rows(const ShapeCall& call) {
  call.outputs[0] = {Shape{call.inputs[0].size(0) + 1}, DType::fp32};
}
void too_few_rows(const ShapeCall& call) {
  call.outputs[0] = {Shape{call.inputs[0].size(0) - 1}, DType::fp32};
}
void past_the_end(const OperatorCall& call) {
  row_host(call);
  const float* x = call.inputs[0].data<float>();
  call.outputs[0].mutable_data<float>()[0] += x[call.inputs[0].elements()];
}
void writes_past_the_end(const OperatorCall& call) {
  const std::size_t rows = call.inputs[0].size(0);
  float* y = call.outputs[0].mutable_data<float>();
  const float* x = call.inputs[0].data<float>();
  for (std::size_t r = 0; r < rows; ++r) y[r] = x[r];
}
void writes_its_input(const OperatorCall& call) {
  row_host(call);
  call.inputs[0].mutable_data<float>()[0] = 0;
}
void in_order_of_arrival(const OperatorCall& call) {
  row_host(call);
  Mutex mutex;
  float total = 0;
  parallel(call.context, 5, [&](int task) {
    const Mutex::Lock lock(mutex);
    total = total / 3 + static_cast<float>(task);
  });
  call.outputs[0].mutable_data<float>()[0] += total;
}
void number_of_threads(const OperatorCall& call) {
  row_host(call);
  call.outputs[0].mutable_data<float>()[0] += static_cast<float>(call.context.executor().width);
}
void as_if_without_gaps(const OperatorCall& call) {
  const std::size_t columns = call.inputs[0].size(1);
  const float* x = call.inputs[0].data<float>();
  float* y = call.outputs[0].mutable_data<float>();
  for (std::size_t r = 0; r < call.inputs[0].size(0); ++r) {
    y[r] = 0;
    for (std::size_t c = 0; c < columns; ++c) y[r] += 2 * x[r * columns + c];
  }
}
void other_sizes(const OperatorCall& call) {
  call.outputs[0] = Tensor::full(call.context, {5}, 1.0f);
}
void other_type(const OperatorCall& call) {
  call.outputs[0] = Tensor::zeros(call.context, call.outputs[0].shape(), DType::int32);
}
void any_type(const ShapeCall& call) {
  call.outputs[0] = {Shape{call.inputs[0].size(0)}, DType::fp32};
}
void codes_for_numbers(const OperatorCall& call) {
  if (call.inputs[0].dtype() == DType::fp32) return row_host(call);
  const View<float> y = call.outputs[0].mutable_view<float>();
  for (std::size_t r = 0; r < y.shape[0]; ++r)
    y(r) = static_cast<float>(std::to_integer<int>(call.inputs[0].raw()[r]));
}
void one_number_more_each_time(const OperatorCall& call) {
  static float calls = 0;
  row_host(call);
  call.outputs[0].mutable_data<float>()[0] += ++calls;
}

struct Mistake {
  std::string_view name, message;  // what the report has to say
  CustomOperator<> op;
};
std::vector<Mistake> mistakes() {
  std::vector<Mistake> all;
  const auto add = [&](std::string_view name, std::string_view message, auto change) {
    all.push_back({name, message, rows()});
    change(all.back().op);
  };
  add("test::gradient", "wrong gradient of input 0",
      [](auto& op) { op.gradient = &row_gradient<3>; });
  add("test::shape",
      "wrong shape rule: output 0 is [5] fp32, and the host kernel does not write its "
      "element 4",
      [](auto& op) { op.shape = &too_many_rows; });
  add("test::reads", "reads out of bounds: what lies beside the elements of input 0",
      [](auto& op) { op.host = &past_the_end; });
  add("test::order", "depends on thread order", [](auto& op) { op.host = &in_order_of_arrival; });
  add("test::strides", "ignores strides", [](auto& op) { op.host = &as_if_without_gaps; });
  add("test::dtype", "wrong dtype: with inputs of ", [](auto& op) {
    op.shape = &any_type;
    op.host = &codes_for_numbers;
  });
  add("test::writes", "writes out of bounds: beside the elements of output 0, which is [3] fp32",
      [](auto& op) {
        op.shape = &too_few_rows;
        op.host = &writes_past_the_end;
      });
  add("test::input", "writes to input 0, and writes_inputs does not say so",
      [](auto& op) { op.host = &writes_its_input; });
  add("test::threads", "depends on the number of threads",
      [](auto& op) { op.host = &number_of_threads; });
  add("test::again", "the same call gives other bits the second time",
      [](auto& op) { op.host = &one_number_more_each_time; });
  add("test::result", "wrong result: output 0, element 0", [](auto& op) {
    op.samples = &row_samples_with_reference;
    op.host = [](const OperatorCall& call) {
      row_host(call);
      call.outputs[0].mutable_data<float>()[0] += 1e-4f;
    };
  });
  add("test::other_sizes",
      "refuses its sample: operator.outputs: test::other_sizes: output 0 is [5] fp32, wanted [4] "
      "fp32, as the shape rule says",
      [](auto& op) { op.host = &other_sizes; });
  add("test::other_type", "output 0 is [4] int32, wanted [4] fp32, as the shape rule says",
      [](auto& op) { op.host = &other_type; });
  add("test::left_out", "output 0 is left out by the shape rule, wanted its sizes and its type",
      [](auto& op) { op.shape = [](const ShapeCall&) {}; });
  add("test::refused", "refuses its sample: tensor.rank", [](auto& op) {
    op.shape = [](const ShapeCall& call) {
      detail::check_rank("test::refused", "x", call.inputs[0], 3);
    };
  });
  return all;
}

}  // namespace

TEST_CASE("an operator without a mistake passes, with a reference or without", "[unit]") {
  auto context = make_context();
  register_operator(context.operators(), "test::rows", rows());
  CustomOperator<> with_reference = rows();
  with_reference.samples = &row_samples_with_reference;
  register_operator(context.operators(), "test::referred", with_reference);
  for (const char* name : {"test::rows", "test::referred"}) {
    const testing::Report report = testing::check_operator(context, name);
    std::ostringstream text;
    text << report;
    INFO(text.str());
    CHECK(report.passed());
    CHECK(text.str().starts_with(std::string(name) + ": passed, "));
    CHECK(text.str().find("gradients against differences") != std::string::npos);
    CHECK((text.str().find("not checked: results") != std::string::npos) ==
          (std::string_view(name) == "test::rows"));
  }
}

TEST_CASE("each mistake has a message of its own", "[unit]") {
  auto context = make_context();
  const std::vector<Mistake> all = mistakes();
  std::set<std::string> messages;
  for (const Mistake& mistake : all) {
    INFO(std::string(mistake.name));
    register_operator(context.operators(), mistake.name, mistake.op);
    const testing::Report report = testing::check_operator(context, mistake.name);
    INFO(to_string(report));
    CHECK_FALSE(report.passed());
    REQUIRE(report.failures.size() == 1);
    const std::string& failure = report.failures[0];
    CHECK(failure.starts_with(std::string(mistake.name) + " ([4, 3]): "));
    CHECK(failure.find(mistake.message) != std::string::npos);
    for (const Mistake& other : all)
      CHECK((failure.find(other.message) != std::string::npos) == (&other == &mistake));
    messages.insert(failure);
  }
  CHECK(messages.size() == all.size());
}

TEST_CASE("an operator is timed over its samples", "[unit]") {
  auto context = make_context({.threads = 1});
  register_operator(context.operators(), "test::rows", rows());
  const std::vector<testing::Timing> timings = testing::time_operator(context, "test::rows", 1e-3);
  REQUIRE(timings.size() == 1);
  CHECK(timings[0].sample == "[4, 3]");
  CHECK(timings[0].elements == 12);
  CHECK(timings[0].nanoseconds > 0);
}
