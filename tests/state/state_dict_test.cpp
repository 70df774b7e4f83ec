// StateDict: order, lookup, and loading that changes all or nothing.

#include <soma/soma.hpp>
#include <soma/state/state_dict.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <string>
#include <vector>

using namespace soma;
using soma_test::id_of;
using soma_test::message_of;

namespace {

std::vector<std::string> names(const StateDict& state) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : state) result.push_back(name);
  return result;
}

}  // namespace

TEST_CASE("names are in ascending order of their bytes", "[unit][state]") {
  auto context = make_context();
  StateDict state;
  CHECK(state.empty());
  // An upper-case letter before a lower-case one, "10" before "2", any UTF-8 letter last.
  for (const char* name : {"b", "\u00e9", "a.2", "B", "a.10", "", "a"})
    state.set(name, Tensor::scalar(context, 1.0f));
  CHECK(names(state) == std::vector<std::string>{"", "B", "a", "a.10", "a.2", "b", "\u00e9"});
  CHECK(state.size() == 7);
  CHECK(state.erase("a"));
  CHECK_FALSE(state.erase("a"));
  CHECK_FALSE(state.contains("a"));
  CHECK(state.contains("a.2"));
  CHECK(state.find("a.3") == nullptr);
  state.set("a", Tensor::scalar(context, 2.0f));
  CHECK(state.at("a").item<float>() == 2);
  CHECK(state.find("a")->item<float>() == 2);
}

TEST_CASE("names are there once, and tensors are shared", "[unit][state]") {
  auto context = make_context();
  StateDict state;
  const Tensor tensor = Tensor::zeros(context, {2});
  state.set("weight", tensor);
  tensor.mutable_data<float>()[1] = 5;
  CHECK(state.at("weight").span<float>()[1] == 5);
  CHECK(message_of([&] { state.set("weight", tensor); }) ==
        "StateDict::set: name is \"weight\", wanted a new name "
        "[state.duplicate_name]");
  CHECK(message_of([&] { state.set("other", Tensor()); }) ==
        "StateDict::set: \"other\" is no tensor, wanted one with elements [tensor.undefined]");
  CHECK(state.size() == 1);
}

TEST_CASE("a name that is missing is answered with those that look like it", "[unit][state]") {
  auto context = make_context();
  StateDict state;
  CHECK(message_of([&] { state.at("x"); }) ==
        "StateDict::at: name is \"x\", wanted a name in a dictionary that has none "
        "[state.missing_name]");
  for (const char* name : {"encoder.0.weight", "encoder.0.bias", "encoder.1.weight", "zzz", "y"})
    state.set(name, Tensor::scalar(context, 1.0f));
  CHECK(message_of([&] { state.at("encoder.0.weigth"); }) ==
        "StateDict::at: name is \"encoder.0.weigth\", wanted one of 5 names, such as "
        "\"encoder.0.weight\", \"encoder.1.weight\", \"encoder.0.bias\" [state.missing_name]");
  CHECK(id_of([&] { state.at(std::string(100000, 'x')); }) == "state.missing_name");
}

TEST_CASE("edit distances", "[unit][state]") {
  CHECK(soma::edit_distance("", "") == 0);
  CHECK(soma::edit_distance("", "abc") == 3);
  CHECK(soma::edit_distance("abc", "") == 3);
  CHECK(soma::edit_distance("kitten", "sitting") == 3);
  CHECK(soma::edit_distance("flaw", "lawn") == 2);
  CHECK(soma::edit_distance("same", "same") == 0);
}

TEST_CASE("a state is copied into another of the same names", "[unit][state]") {
  auto context = make_context();
  StateDict source, target;
  const Tensor store = Tensor::zeros(context, {3, 2});
  source.set("a", Tensor::from(context, {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f}, {2, 3}));
  source.set("b", Tensor::full(context, {2}, bf16(3.0f)));
  source.set("extra", Tensor::scalar(context, 1.0f));
  source.set("more", Tensor::scalar(context, 1.0f));
  target.set("a", store.transpose(0, 1));
  target.set("b", Tensor::zeros(context, {2}, DType::bf16));
  CHECK(copy_into(source, target) == std::vector<std::string>{"extra", "more"});
  CHECK(store.view<float>()(2, 0) == 3);
  CHECK(store.view<float>()(0, 1) == 4);
  CHECK(static_cast<float>(target.at("b").span<bf16>()[1]) == 3);
  CHECK(message_of([&] { copy_into(source, target, {.extra_names_are_errors = true}); }) ==
        "copy_into: name is \"extra\" (one of 2 extra), wanted a name of the target, one of 2 "
        "names, such as \"a\", \"b\" [state.extra_name]");
  CHECK(copy_into(source, StateDict()).size() == 4);
  CHECK(copy_into(StateDict(), StateDict()).empty());
}

TEST_CASE("what is wrong with a state is said, and nothing is written", "[unit][state]") {
  auto context = make_context();
  const std::vector<float> constants(2);
  StateDict source;
  source.set("0", Tensor::full(context, {2}, 1.0f));
  source.set("name", Tensor::full(context, {2}, 1.0f));
  const auto attempt = [&](const std::string& name, const Tensor& to) {
    StateDict target;
    const Tensor good = Tensor::zeros(context, {2});
    target.set("0", good);
    target.set(name, to);
    const std::string message = message_of([&] { copy_into(source, target); });
    CHECK(good.version() == 0);
    CHECK(good.span<float>()[0] == 0);
    return message;
  };
  CHECK(attempt("nam", Tensor::zeros(context, {2})) ==
        "copy_into: name is \"nam\", which source lacks, wanted one of 2 names, such as "
        "\"name\", \"0\" [state.missing_name]");
  CHECK(attempt("name", Tensor::zeros(context, {2, 1})) ==
        "copy_into: \"name\" is [2] fp32, wanted [2, 1] fp32 [state.shape]");
  CHECK(attempt("name", Tensor::zeros(context, {2}, DType::tf32)) ==
        "copy_into: \"name\" is [2] fp32, wanted [2] tf32 [state.dtype]");
  CHECK(attempt("name", Tensor::adopt(context, std::span(constants), {2})) ==
        "copy_into: \"name\" is [2] fp32 of constant elements, wanted a writable tensor "
        "[tensor.read_only]");
}
