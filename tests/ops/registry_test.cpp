// The registry: names, owners, places; nothing is global.

#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"

#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

using namespace soma;
using soma_test::id_of;
using soma_test::message_of;

namespace {

Operator copying(std::string_view name) {
  return {.name = name,
          .shape =
              [](const ShapeCall& call) {
                call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
              },
          .host = [](const OperatorCall& call) { copy(call.inputs[0], call.outputs[0]); }};
}

// Says when it is gone.
struct Guard {
  explicit Guard(int& gone) : count(&gone) {}
  Guard(Guard&& other) noexcept : count(std::exchange(other.count, nullptr)) {}
  ~Guard() {
    if (count != nullptr) ++*count;
  }
  int* count;
};

}  // namespace

TEST_CASE("a record is handed over by value", "[unit]") {
  int gone = 0;
  {
    auto context = make_context({.threads = 1});
    OperatorRegistry& registry = context.operators();
    const std::size_t built_in = registry.all().size();
    const Operator* op = nullptr;
    {
      std::string name = "test::copying";
      op = &registry.add(NewOperator{copying(name), Owner(Guard(gone))}, "somewhere");
      name = "overwritten name";
    }
    CHECK(op->name == "test::copying");
    CHECK(registry.find("test::copying") == op);
    CHECK(&registry.at("softmax") == context.built_in().softmax);
    CHECK(registry.all().size() == built_in + 1);
    CHECK(registry.all().back() == op);
    CHECK(op->registration->place == "somewhere");
    CHECK(run(context, *op, {}, {Tensor::full(context, {2}, 3.0f)})[0].span<float>()[1] == 3);
    CHECK(op->registration->used);
    CHECK(gone == 0);
    // Another context knows nothing of it.
    auto other = make_context({.threads = 1});
    CHECK(other.operators().find("test::copying") == nullptr);
    CHECK(message_of([&] { static_cast<void>(other.operators().at("test::copying")); }) ==
          "OperatorRegistry::at: name is \"test::copying\", wanted one of the " +
              std::to_string(built_in) + " registered operators [operator.unknown]");
  }
  CHECK(gone == 1);
}

TEST_CASE("names have a namespace and are given once", "[unit]") {
  auto context = make_context({.threads = 1});
  OperatorRegistry& registry = context.operators();
  for (const char* name : {"", "plain", "::x", "x::", "a::b c", "a:b", "a::b::", "a::\n", "a::-"}) {
    INFO(name);
    CHECK(id_of([&] { registry.add(copying(name)); }) == "operator.name");
  }
  registry.add(copying("a::b_2::C"));
  CHECK(message_of([&] { registry.add(copying("plain")); }) ==
        "OperatorRegistry::add: name is \"plain\", wanted \"namespace::name\" of letters, digits "
        "and underscores [operator.name]");
  const int first = __LINE__ + 1;
  registry.add(copying("test::twice"));
  const std::string file = std::string(__FILE__) + ":";
  CHECK(message_of([&] { registry.add(copying("test::twice")); }) ==
        "OperatorRegistry::add: name is \"test::twice\" at " + file + std::to_string(first + 2) +
            ", wanted another one: it was registered at " + file + std::to_string(first) +
            " [operator.duplicate_name]");
  Operator no_host = copying("test::no_host");
  no_host.host = nullptr;
  CHECK(message_of([&] { registry.add(no_host); }) ==
        "OperatorRegistry::add: operator is \"test::no_host\" without a host kernel, wanted a "
        "function that computes it [operator.incomplete]");
}

TEST_CASE("several operators are added all or not at all", "[unit]") {
  auto context = make_context({.threads = 1});
  OperatorRegistry& registry = context.operators();
  registry.add(copying("test::b"));
  const std::size_t before = registry.all().size();
  for (const char* second : {"test::b", "test::a", "wrong"}) {
    NewOperator both[] = {{copying("test::a")}, {copying(second)}};
    CHECK(id_of([&] { registry.add_all(both, "here"); }) ==
          (std::string_view(second) == "wrong" ? "operator.name" : "operator.duplicate_name"));
    CHECK(registry.all().size() == before);
    CHECK(registry.find("test::a") == nullptr);
  }
}

TEST_CASE("threads add, find and list at the same time", "[unit]") {
  auto context = make_context({.threads = 1});
  OperatorRegistry& registry = context.operators();
  const std::size_t built_in = registry.all().size();
  constexpr int threads = 4, each = 60;
  std::atomic<int> refused = 0, wrong = 0;
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&, t] {
      for (int i = 0; i < each; ++i) {
        const std::string name = "test::op_" + std::to_string(t) + "_" + std::to_string(i);
        const Operator& op = registry.add(copying(name));
        if (registry.find(name) != &op || op.name != name) ++wrong;
        for (const Operator* other : registry.all())
          if (other->host == nullptr) ++wrong;
        // One of the threads is first.
        if (id_of([&] { registry.add(copying("test::same_" + std::to_string(i))); }) ==
            "operator.duplicate_name")
          ++refused;
      }
    });
  for (std::thread& worker : workers) worker.join();
  CHECK(wrong == 0);
  CHECK(refused == (threads - 1) * each);
  CHECK(registry.all().size() == built_in + (threads + 1) * each);
}

TEST_CASE("contexts share operators by address, until the last one ends", "[unit]") {
  int gone = 0;
  {
    auto rank = make_context({.threads = 1});
    const Operator* op = nullptr;
    {
      auto context = make_context({.threads = 1});
      NewOperator one{copying("test::shared"), Owner(Guard(gone))};
      op = &context.operators().add(std::move(one), "somewhere");
      rank.operators().share(context.operators());
      CHECK(rank.operators().find("test::shared") == op);
      CHECK(id_of([&] { rank.operators().share(context.operators()); }) ==
            "operator.duplicate_name");
    }
    CHECK(gone == 0);
    CHECK(run(rank, *op, {}, {Tensor::full(rank, {2}, 3.0f)})[0].span<float>()[1] == 3);
    auto third = make_context({.threads = 1});  // from one to which they came themselves
    third.operators().share(rank.operators());
    CHECK(third.operators().find("test::shared") == op);
  }
  CHECK(gone == 1);
}

TEST_CASE("operators are shared all or not at all", "[unit]") {
  auto context = make_context({.threads = 1}), rank = make_context({.threads = 1});
  context.operators().add(copying("test::a"));
  context.operators().add(copying("test::b"));
  rank.operators().add(copying("test::b"));
  const std::size_t before = rank.operators().all().size();
  CHECK(id_of([&] { rank.operators().share(context.operators()); }) == "operator.duplicate_name");
  CHECK(rank.operators().all().size() == before);
  CHECK(rank.operators().find("test::a") == nullptr);
}

TEST_CASE("describe lists what there is", "[unit]") {
  auto context = make_context({.threads = 1});
  context.operators().add(NewOperator{copying("test::listed"), {}}, "list.cpp:12");
  const std::string text = describe(context.operators());
  CHECK(text.starts_with("name"));
  const auto line_of = [&](std::string_view name) {
    const std::size_t begin = text.find("\n" + std::string(name) + " ") + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  CHECK(line_of("linear").find("2-4     2        gradient, samples  built in") !=
        std::string::npos);
  CHECK(line_of("test::listed").find("1       1                           list.cpp:12") !=
        std::string::npos);
}
