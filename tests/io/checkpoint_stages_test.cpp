// Checkpoints that stages of a pipeline wrote: names of their own, read by whoever wants them.

#include <soma/soma.hpp>

#include <soma/io/checkpoint_folder.hpp>
#include <soma/io/checkpoint_part_folder.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

using namespace soma;
using namespace soma_test;

namespace fs = std::filesystem;

TEST_CASE("stages write names of their own, and a rank reads what it needs", "[unit][checkpoint]") {
  auto context = make_context({.log = {nullptr, [](void*, LogLevel, std::string_view) {}}});
  const TemporaryFolder folder;
  CheckpointFolder store(folder.path());
  CheckpointPartFolder others(folder.path());
  // Names "0.w" to "5.w" of three stages; moments of each stage are cut over two ranks.
  constexpr std::size_t stages = 3, replicas = 2;
  const auto tensor = [&](std::size_t i, float of) {
    return Tensor::full(context, Shape{4, 2}, static_cast<float>(i) + of);
  };
  const auto save = [&](std::optional<std::uint64_t> step) {
    const std::string place = store.begin_parts(step);
    for (std::size_t stage = 0; stage < stages; ++stage) {
      StateDict weights, precision;
      for (std::size_t i = 2 * stage; i < 2 * stage + 2; ++i)
        weights.set(std::to_string(i) + ".w", tensor(i, 0.5f));
      precision.set(std::to_string(stage) + ".amax", tensor(stage, 0));
      CheckpointStore& own = stage == 0 ? static_cast<CheckpointStore&>(store) : others;
      own.save_part(place, CheckpointState::weights, {stage, stages}, weights);
      own.save_part(place, CheckpointState::precision, {stage, stages}, precision);
      for (std::size_t k = 0; k < replicas; ++k) {
        StateDict moments;
        for (std::size_t i = 2 * stage; i < 2 * stage + 2; ++i)
          moments.set(std::to_string(i) + ".w.first_moment",
                      tensor(i, 0.25f).slice(0, k == 0 ? 0 : 3, k == 0 ? 3 : 4));
        own.save_part(place, CheckpointState::optimizer, {stage * replicas + k, stages * replicas},
                      moments);
      }
    }
    Checkpoint rest;
    for (const CheckpointState which :
         {CheckpointState::weights, CheckpointState::optimizer, CheckpointState::precision})
      rest.parts[which] = which == CheckpointState::optimizer ? stages * replicas : stages;
    step ? store.save(*step, rest) : store.save_best(rest);
  };
  CHECK(store.find_latest(context).empty());
  CHECK(store.find_best().empty());
  save(8);
  save(9);
  save(std::nullopt);
  CHECK(names_in(folder / "best").size() == 3 + 3 + 6 + 3);
  Checkpoint whole;
  for (const bool best : {false, true}) {
    REQUIRE((best ? store.load_best(context, whole) : store.load_latest(context, whole)));
    REQUIRE((whole.weights.size() == 6 && whole.optimizer.size() == 6));
    CHECK(whole.precision.size() == 3);
    for (std::size_t i = 0; i < 6; ++i) {
      const std::string name = std::to_string(i) + ".w";
      CHECK(whole.weights.at(name).span<float>()[7] == static_cast<float>(i) + 0.5f);
      const Tensor& moment = whole.optimizer.at(name + ".first_moment");
      CHECK(moment.shape() == Shape{4, 2});
      for (const float value : moment.span<float>()) CHECK(value == static_cast<float>(i) + 0.25f);
    }
  }
  // A rank of another cut: mapped where a tensor is whole, and put together where it is not.
  struct Third final : CheckpointNames {
    bool wants(std::string_view name) const override { return name.starts_with("3.w"); }
  };
  CHECK(store.find_latest(context) == "step-0000000009");
  CHECK(store.find_best() == "best");
  for (const bool best : {false, true}) {
    whole = Checkpoint();
    const std::size_t before = context.heap().bytes_in_use();
    context.heap().reset_peak();
    whole = others.load_named(context, best ? "best" : "step-0000000009", Third());
    // One tensor of 32 bytes, and of each tensor's handle a block: those of the file being read.
    CHECK(context.heap().peak_bytes() - before < 40 * 128);
    REQUIRE((whole.weights.size() == 1 && whole.optimizer.size() == 1));
    CHECK(whole.precision.size() == 3);
    CHECK(whole.weights.at("3.w").span<float>()[0] == 3.5f);
    CHECK(whole.optimizer.at("3.w.first_moment").size(0) == 4);
  }
  // A damaged one is set aside, and one of another step is found.
  const std::string file = folder / "step-0000000009/weights-00002-of-00003.safetensors";
  std::string text = read_text(file);
  text.back() = static_cast<char>(text.back() ^ 1);
  write_text(file, text);
  write_text(folder / "best/precision-00003-of-00003.safetensors", text);
  CHECK(store.find_latest(context) == "step-0000000008");
  CHECK(fs::exists(folder / "step-0000000009.damaged"));
  CHECK(id_of([&] { store.find_best(); }) == "checkpoint.damaged");
  // A part of each kind has to be there; and the best one is not that of a step.
  store.begin_parts(10);
  Checkpoint rest;
  rest.parts[CheckpointState::weights] = 2;
  CHECK(id_of([&] { store.save_best(rest); }) == "checkpoint.parts");
  store.begin_parts(10);
  CHECK_THAT(message_of([&] { store.save(10, rest); }),
             contains("weights-00001-of-00002.safetensors\", which is not there"));
  CHECK(id_of([&] { others.find_latest(context); }) == "checkpoint.parts");
  CHECK(id_of([&] { others.find_best(); }) == "checkpoint.parts");
  CHECK(id_of([&] { others.load_named(context, "nowhere", Third()); }) == "file.read");
}
