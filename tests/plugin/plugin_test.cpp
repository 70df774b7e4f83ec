// Operators from shared libraries: taken whole or refused with a reason, and unloaded at the end.

#include <soma/plugin.hpp>
#include <soma/soma.hpp>
#include <soma/testing.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace soma;
using soma_test::gradient_values;
using soma_test::id_of;
using soma_test::message_of;
using soma_test::values;

namespace {

const std::string folder = SOMA_TEST_PLUGINS;  // "…/", with the libraries of plugin.c

struct Factor {
  float value;
};
struct Two {
  float a, b;
};

bool is_loaded(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

}  // namespace

TEST_CASE("operators of a library are like any others", "[unit]") {
  const std::string path = folder + "good.so";
  CHECK_FALSE(is_loaded(path));
  {
    auto context = make_context({.threads = 2});
    const std::vector<const Operator*> added = load_operators(context, path);
    CHECK(is_loaded(path));
    REQUIRE(added.size() == 4);
    CHECK(added[0]->name == "plug::scale");
    CHECK(added[0]->registration->place == path);
    Tape tape(context);
    const Var x = Var::parameter(context, Tensor::from<float>(context, {1, 2, 3, 4}, {2, 2}));
    CHECK(values(context, apply(tape, "plug::scale", {x}).value()) ==
          std::vector<float>{2, 4, 6, 8});
    const auto scale = find_operator<Factor>(context.operators(), "plug::scale");
    const Var y = scale(tape, transpose(tape, x, 0, 1), {5});
    CHECK(values(context, y.value()) == std::vector<float>{5, 15, 10, 20});
    tape.backward(sum(tape, square(tape, y)));
    CHECK(gradient_values(context, x) == std::vector<float>{50, 100, 150, 200});
    CHECK(scale(tape, cast(tape, x, DType::bf16), {0.5f}).value().dtype() == DType::bf16);

    CHECK(message_of([&] { scale(tape, x, {-1}); }) ==
          "plug::scale: shape rule is status 2: \"factor -1\\nis negative\", wanted status 0 "
          "[plugin.failed]");
    CHECK(id_of([&] { apply(tape, "plug::scale", {x}, Two{}); }) == "operator.attributes");
    CHECK(message_of([&] { apply(tape, "plug::no_rank", {tape.detach(x)}); }) ==
          "plug::no_rank: shape rule is rank -1 and dtype 0, wanted a rank and a dtype of "
          "soma/plugin.h "
          "[plugin.malformed]");
    CHECK(message_of([&] { apply(tape, "plug::bad_rank", {tape.detach(x)}); }) ==
          "plug::bad_rank: shape rule is rank 99 and dtype 0, wanted a rank and a dtype of "
          "soma/plugin.h "
          "[plugin.malformed]");

    // As given: the strides are the library's affair.
    const Tensor codes = Tensor::from<std::uint8_t>(context, {1, 2, 3, 4}, {4}).slice(0, 0, 4, 2);
    const Tensor inverse = apply(tape, "plug::invert", {tape.constant(codes)}).value();
    CHECK(inverse.span<std::uint8_t>()[1] == 252);
    CHECK(id_of([&] { apply(tape, "plug::invert", {x}); }) == "autograd.not_differentiable");
    CHECK(message_of([&] { apply(tape, "plug::invert", {tape.detach(x)}); }) ==
          "plug::invert: shape rule is status 1, wanted status 0 [plugin.failed]");

    OperatorSamples samples;
    samples.samples = {
        {.name = "[3, 4]", .inputs = {{.shape = {3, 4}}}, .attributes = Factor{1.5f}}};
    const testing::Report report = testing::check_operator(context, *added[0], samples);
    INFO(to_string(report));
    CHECK(report.passed());
    CHECK(report.checks > 20);

    // Twice in a context is too much; another context may have it too, and keep it for itself.
    CHECK(message_of([&] { load_operators(context, path); }) ==
          "OperatorRegistry::add: name is \"plug::scale\" at " + path +
              ", wanted another one: it was registered at " + path + " [operator.duplicate_name]");
    {
      auto other = make_context({.threads = 1});
      CHECK(load_operators(other, path).size() == 4);
    }
    CHECK(is_loaded(path));
    CHECK(values(context, apply(tape, "plug::scale", {x}).value())[3] == 8);
  }
  CHECK_FALSE(is_loaded(path));
}

TEST_CASE("a library that is not right is refused as a whole, with the reason", "[unit]") {
  auto context = make_context({.threads = 1});
  const std::size_t before = context.operators().all().size();
  const auto refused = [&](const std::string& name) {
    const std::string path = name.find('/') == std::string::npos ? name : folder + name.substr(2);
    const std::string message = message_of([&] { load_operators(context, path); });
    CHECK(context.operators().all().size() == before);
    if (path != name) CHECK_FALSE(is_loaded(path));
    return message;
  };
  const auto expected = [&](const std::string& name, const std::string& rest) {
    CHECK(refused("./" + name) == "load_operators: library is \"" + folder + name + "\", " + rest);
  };
  CHECK(refused("good.so") ==
        "load_operators: library is \"good.so\", a bare name, wanted a path with a slash, such as "
        "\"./libmine.so\" [plugin.path]");
  expected("missing.so", "No such file or directory, wanted a file that can be read [plugin.file]");
  const std::string no_library = folder + "no_library.so";
  std::ofstream(no_library) << "text";
  const std::string message = refused("./no_library.so");
  CHECK(message.find("which the loader refuses: \"") != std::string::npos);
  CHECK(message.ends_with("wanted a shared library for this machine [plugin.library]"));
  const std::string symbol =
      "without the symbol soma_plugin, wanted one of soma/plugin.h [plugin.symbol]";
  expected("no_symbol.so", symbol);
  expected("linked.so", symbol);  // it has that of good.so
  expected("old_version.so",
           "made for version 0, wanted version 1 to 2 of soma/plugin.h [plugin.version]");
  const std::string info = ", wanted a soma_plugin as in soma/plugin.h [plugin.malformed]";
  expected("short_info.so", "with a soma_plugin of 4 bytes" + info);
  expected("no_add.so", "without add_operators" + info);
  const std::string records = ", wanted records as in soma/plugin.h [plugin.malformed]";
  expected("null_record.so", "which registers a null record" + records);
  expected("short_record.so", "which registers a record of 8 bytes, not " +
                                  std::to_string(sizeof(soma_operator)) + records);
  expected("no_name.so", "which registers a record without a name" + records);
  expected("no_host.so", "which registers \"plug::invert\" without a host function" + records);
  expected("many_inputs.so",
           "which registers \"plug::invert\" with 1 to 1000 inputs and 1 outputs" + records);
  expected("unknown_flags.so", "which registers \"plug::invert\" with unknown flags" + records);
  expected("gives_up.so", "whose add_operators returns 7, wanted 0 [plugin.failed]");
  // Kernels of processors need a header more.
  expected("libcpu_style.so",
           "which gives up: \"kernels of processors: include soma/processors.hpp to load them\", "
           "wanted a library that can be used [plugin.failed]");
  CHECK(refused("./bare_name.so").find("[operator.name]") != std::string::npos);
  CHECK(refused("./same_name_twice.so").find("twice in") != std::string::npos);

  register_elementwise(context.operators(), "plug::invert", [](float x) { return 1 - x; });
  const std::size_t with_one = context.operators().all().size();
  CHECK(id_of([&] { load_operators(context, folder + "good.so"); }) == "operator.duplicate_name");
  CHECK(context.operators().all().size() == with_one);
  CHECK(context.operators().find("plug::scale") == nullptr);
  CHECK_FALSE(is_loaded(folder + "good.so"));
}

TEST_CASE("a file that the loader could not bear is not given to it", "[unit]") {
  auto context = make_context({.threads = 1});
  const std::string path = folder + "unbearable.so";
  const auto expected = [&](const std::string& problem) {
    CHECK(message_of([&] { load_operators(context, path); }) ==
          "load_operators: library is \"" + path + "\", " + problem +
              ", wanted a file that can be read [plugin.file]");
  };
  std::ifstream good(folder + "good.so", std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(good)), {});
  // From nothing but the header on: tables, segments and sections each end somewhere.
  for (const std::size_t bytes : {sizeof(ElfW(Ehdr)), whole.size() / 4, whole.size() / 2,
                                  whole.size() - sizeof(ElfW(Shdr)), whole.size() - 1}) {
    INFO(bytes << " of " << whole.size());
    std::ofstream(path, std::ios::binary) << whole.substr(0, bytes);
    expected("which has been cut short");
  }
  std::ofstream(path, std::ios::binary) << whole;
  CHECK(load_operators(context, path).size() == 4);
  REQUIRE(unlink(path.c_str()) == 0);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  expected("which is no regular file");
  REQUIRE(unlink(path.c_str()) == 0);
  CHECK(message_of([&] { load_operators(context, folder); }) ==
        "load_operators: library is \"" + folder +
            "\", which is no regular file, wanted a file that can be read [plugin.file]");
}

TEST_CASE("a library stays as long as a context has its operators", "[unit]") {
  const std::string path = folder + "good.so";
  {
    auto second = make_context({.threads = 1});
    {
      auto first = make_context({.threads = 1});
      load_operators(first, path);
      second.operators().share(first.operators());
    }
    CHECK(is_loaded(path));
    Tape tape(second);
    const Var x = Var::parameter(second, Tensor::from<float>(second, {1, 2}, {2}));
    const Var y = apply(tape, "plug::scale", {x});
    tape.backward(sum(tape, y));
    CHECK(values(second, y.value()) == std::vector<float>{2, 4});
    CHECK(gradient_values(second, x) == std::vector<float>{2, 2});
  }
  CHECK_FALSE(is_loaded(path));
}
