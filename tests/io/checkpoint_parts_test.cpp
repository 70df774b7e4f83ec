// Checkpoints whose optimizer several ranks wrote: put together again from any number of parts,
// and never from parts of two.

#include <soma/soma.hpp>

#include <soma/io/checkpoint_folder.hpp>
#include <soma/io/checkpoint_part_folder.hpp>

#include "catch.hpp"
#include "io/child.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

namespace fs = std::filesystem;

// States with many rows and with one, of several types, whose bytes tell the step.
StateDict states(Context& context, std::uint64_t step, std::size_t rows = 37) {
  StateDict state;
  const auto add = [&](const char* name, const Shape& shape, DType dtype) {
    const Tensor tensor = counting_bytes(context, shape, dtype);
    for (std::size_t i = 0; i < tensor.bytes(); ++i)
      tensor.mutable_raw()[i] = static_cast<std::byte>(i * 7 + step * 13);
    state.set(name, tensor);
  };
  add("a.first_moment", {rows, 5}, DType::fp32);
  add("a.second_moment", {rows, 5}, DType::bf16);
  add("b.first_moment", {3}, DType::fp32);
  add("c.first_moment", {1, 2, 2}, DType::fp16);
  add("d.first_moment", {4, 0}, DType::fp32);
  add("e.first_moment", {}, DType::fp32);
  state.set("a.steps", Tensor::scalar(context, static_cast<std::int64_t>(step)));
  return state;
}

// The rows of one part; cut unevenly, some have none.
StateDict part_of(const StateDict& whole, const CheckpointPart& part) {
  StateDict own;
  for (const auto& [name, tensor] : whole) {
    if (tensor.rank() == 0) {
      own.set(name, tensor);
      continue;
    }
    const auto cut = [&part, rows = tensor.size(0)](std::size_t i) {
      return i == part.count ? rows : rows * i * i / (part.count * part.count);
    };
    own.set(name, tensor.slice(0, cut(part.index), cut(part.index + 1)));
  }
  return own;
}

bool same(const StateDict& a, const StateDict& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a) {
    const Tensor* other = b.find(name);
    if (other == nullptr || other->shape() != tensor.shape() || other->dtype() != tensor.dtype())
      return false;
    if (tensor.bytes() != 0 && std::memcmp(tensor.raw(), other->raw(), tensor.bytes()) != 0)
      return false;
  }
  return true;
}

// The part of a checkpoint that rank 0 adds to the parts.
Checkpoint rest(Context& context, std::uint64_t step, std::size_t parts) {
  Checkpoint checkpoint;
  checkpoint.weights.set("w", Tensor::full(context, Shape{100}, static_cast<float>(step)));
  checkpoint.progress.set("step", step);
  checkpoint.identity.set("model", "tiny");
  checkpoint.parts[CheckpointState::optimizer] = parts;
  return checkpoint;
}

void save_part(Context& context, CheckpointStore& store, const std::string& place,
               std::uint64_t step, const CheckpointPart& part, std::size_t rows = 37) {
  store.save_part(place, CheckpointState::optimizer, part,
                  part_of(states(context, step, rows), part));
}

// All ranks, one after the other.
void save_all(Context& context, CheckpointFolder& store, const std::string& path,
              std::uint64_t step, std::size_t parts, std::size_t rows = 37) {
  CheckpointPartFolder others(path);
  const std::string place = store.begin_parts(step);
  for (std::size_t i = parts; i-- > 1;) save_part(context, others, place, step, {i, parts}, rows);
  save_part(context, store, place, step, {0, parts}, rows);
  store.save(step, rest(context, step, parts));
}

bool is_whole(Context& context, const Checkpoint& checkpoint, std::uint64_t step,
              std::size_t rows = 37) {
  return checkpoint.progress.count("step") == step && !checkpoint.parts.any() &&
         checkpoint.weights.at("w").span<float>()[99] == static_cast<float>(step) &&
         same(checkpoint.optimizer, states(context, step, rows));
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("parts go in and the whole comes out, for any number of them", "[unit][checkpoint]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  CheckpointFolder store(folder.path(), {.keep = 1});
  Checkpoint checkpoint;
  std::uint64_t step = 0;
  for (const std::size_t parts : {1u, 2u, 3u, 4u, 8u, 64u}) {
    INFO(parts << " parts");
    save_all(context, store, folder.path(), ++step, parts);
    REQUIRE(store.load_latest(context, checkpoint));
    CHECK(is_whole(context, checkpoint, step));
    CHECK(is_whole(context,
                   load_checkpoint(context, folder / ("step-000000000" + std::to_string(step))),
                   step));
  }
  save_all(context, store, folder.path(), 7, 2);
  CHECK(names_in(folder.path()) == Names{"lock", "step-0000000007"});
  CHECK(names_in(folder / "step-0000000007") ==
        Names{"checksums.txt", "identity.json", "optimizer-00001-of-00002.safetensors",
              "optimizer-00002-of-00002.safetensors", "precision.safetensors", "progress.json",
              "weights.safetensors"});
  // The same step again: in other parts, and whole.
  save_all(context, store, folder.path(), 7, 4);
  REQUIRE(store.load_latest(context, checkpoint));
  CHECK(is_whole(context, checkpoint, 7));
  Checkpoint whole = rest(context, 7, 0);
  whole.optimizer = states(context, 7);
  store.save(7, whole);
  REQUIRE(store.load_latest(context, checkpoint));
  CHECK(is_whole(context, checkpoint, 7));
  CHECK(names_in(folder / "step-0000000007").size() == 6);
}

TEST_CASE("a folder with parts of two steps is refused", "[unit][checkpoint]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  CheckpointFolder store(folder.path());
  const std::string place = store.begin_parts(3);
  save_part(context, store, place, 3, {0, 2});
  save_part(context, store, place, 4, {1, 2});
  store.save(3, rest(context, 3, 2));
  Checkpoint checkpoint;
  CHECK(id_of([&] { store.load_latest(context, checkpoint); }) == "checkpoint.parts");
}

TEST_CASE("a damaged part gives way to the checkpoint before", "[unit][checkpoint]") {
  auto context = make_context({.log = {nullptr, [](void*, LogLevel, std::string_view) {}}});
  const std::string second = "optimizer-00002-of-00004.safetensors";
  const auto flip = [](const std::string& path) {
    std::string text = read_text(path);
    text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
    write_text(path, text);
  };
  struct Damage {
    std::string file, message;
    bool removed;
  };
  for (const Damage& damage :
       {Damage{second, "has a " + second + " that does not match its checksum", false},
        Damage{second, "has no " + second, true},
        Damage{"checksums.txt", "has no checksums.txt", true}}) {
    const TemporaryFolder folder;
    CheckpointFolder store(folder.path());
    for (const std::uint64_t step : {1u, 2u}) save_all(context, store, folder.path(), step, 4);
    const std::string newest = folder / "step-0000000002";
    if (damage.removed)
      fs::remove(newest + "/" + damage.file);
    else
      flip(newest + "/" + damage.file);
    const std::string error = message_of([&] { load_checkpoint(context, newest); });
    CHECK_THAT(error, contains(damage.message.c_str()));
    CHECK_THAT(error, contains("[checkpoint.damaged]"));
    Checkpoint checkpoint;
    REQUIRE(store.load_latest(context, checkpoint));
    CHECK(is_whole(context, checkpoint, 1));
    CHECK(fs::exists(newest + ".damaged"));
  }
  // Every byte of the list of checksums, which says how many parts there are.
  const TemporaryFolder folder;
  CheckpointFolder store(folder.path());
  save_all(context, store, folder.path(), 1, 2);
  const std::string list = folder / "step-0000000001/checksums.txt", text = read_text(list);
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    write_text(list, changed);
    CAPTURE(i);
    CHECK(id_of([&] { load_checkpoint(context, folder / "step-0000000001"); }) ==
          "checkpoint.damaged");
  }
}

TEST_CASE("a checkpoint without one of its parts is not made", "[unit][checkpoint]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder, elsewhere;
  CheckpointFolder store(folder.path());
  CheckpointPartFolder others(folder.path()), lost(elsewhere.path());
  save_all(context, store, folder.path(), 1, 2);
  const auto check_untouched = [&] {
    CHECK(names_in(folder.path()) == Names{"lock", "step-0000000001"});
    Checkpoint checkpoint;
    REQUIRE(store.load_latest(context, checkpoint));
    CHECK(is_whole(context, checkpoint, 1));
  };
  // A rank that does not see the folder.
  std::string place = store.begin_parts(2);
  CHECK(message_of([&] {
          save_part(context, lost, place, 2, {1, 2});
        }) ==
        "CheckpointPartFolder::save_part: folder is \"" + elsewhere.path() + "/" + place +
            "\", which is not there, wanted the one that rank 0 has made, in a folder that all "
            "ranks share [checkpoint.parts]");
  CHECK(names_in(elsewhere.path()).empty());
  // One that rank 0 does not see anything of.
  save_part(context, store, place, 2, {0, 2});
  CHECK(message_of([&] { store.save(2, rest(context, 2, 2)); }) ==
        "CheckpointFolder::save: part is \"" + (folder / place) +
            "/optimizer-00002-of-00002.safetensors\", which is not there, wanted one from each of "
            "2 ranks, in a folder that all share [checkpoint.parts]");
  check_untouched();
  // One of which rank 0 sees only the beginning.
  place = store.begin_parts(2);
  save_part(context, store, place, 2, {0, 2});
  save_part(context, others, place, 2, {1, 2});
  fs::resize_file(folder / place + "/optimizer-00002-of-00002.safetensors", 100);
  CHECK_THAT(message_of([&] { store.save(2, rest(context, 2, 2)); }),
             contains("of 100 bytes, not those that were written"));
  check_untouched();
  // Another step, other parts, nothing begun, a checkpoint in between.
  place = store.begin_parts(2);
  CHECK(id_of([&] { store.save(3, rest(context, 3, 2)); }) == "checkpoint.parts");
  CHECK(id_of([&] { store.save(2, rest(context, 2, 2)); }) == "checkpoint.parts");
  place = store.begin_parts(2);
  for (const std::size_t i : {0u, 1u}) save_part(context, store, place, 2, {i, 2});
  CHECK(id_of([&] { store.save(2, rest(context, 2, 4)); }) == "checkpoint.parts");
  check_untouched();
  place = store.begin_parts(2);
  for (const std::size_t i : {0u, 1u}) save_part(context, store, place, 2, {i, 2});
  Checkpoint whole = rest(context, 1, 0);
  whole.optimizer = states(context, 1);
  store.save(1, whole);
  CHECK(id_of([&] { store.save(2, rest(context, 2, 2)); }) == "checkpoint.parts");
  check_untouched();
  // Errors in the files of rank 0.
  place = store.begin_parts(2);
  for (const std::size_t i : {0u, 1u}) save_part(context, store, place, 2, {i, 2});
  Checkpoint bad = rest(context, 2, 2);
  bad.identity.set("text", "\xff");
  CHECK(id_of([&] { store.save(2, bad); }) == "record.text");
  check_untouched();
  store.begin_parts(2);
  store.drop_parts();
  check_untouched();
  CHECK(id_of([&] {
          store.save_part(place, CheckpointState::optimizer, {2, 2}, states(context, 2));
        }) == "checkpoint.parts");

  Checkpoint checkpoint;
  CHECK(id_of([&] { others.save(2, whole); }) == "checkpoint.parts");
  CHECK(id_of([&] { others.save_best(whole); }) == "checkpoint.parts");
  CHECK(id_of([&] { others.load_latest(context, checkpoint); }) == "checkpoint.parts");
  CHECK(id_of([&] { others.load_best(context, checkpoint); }) == "checkpoint.parts");
  CHECK(id_of([&] { others.begin_parts(2); }) == "checkpoint.parts");
}

TEST_CASE("parts of a run that was killed get into no other checkpoint", "[unit][checkpoint]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  // The first run: three parts of four are there when it ends.
  const int code = in_child([&] {
    CheckpointFolder store(folder.path());
    const std::string place = store.begin_parts(5);
    for (const std::size_t i : {0u, 1u, 2u}) save_part(context, store, place, 4, {i, 4});
    write_text(folder / "place", place);
    _exit(7);
    return 0;
  });
  REQUIRE(code == 7);
  const std::string old_place = read_text(folder / "place");
  fs::remove(folder / "place");
  CHECK(names_in(folder.path()) == Names{"lock", old_place});
  REQUIRE(old_place.ends_with(".partial"));

  CheckpointFolder store(folder.path());
  CheckpointPartFolder others(folder.path());
  const std::string place = store.begin_parts(5);
  CHECK(place != old_place);
  CHECK(names_in(folder.path()) == Names{"lock", place});
  // A rank of the first run that is still at work.
  CHECK(id_of([&] { save_part(context, others, old_place, 4, {3, 4}); }) == "checkpoint.parts");
  // The one that is missing was there in the first run.
  for (const std::size_t i : {0u, 1u, 3u}) save_part(context, others, place, 5, {i, 4});
  CHECK_THAT(message_of([&] { store.save(5, rest(context, 5, 4)); }),
             contains("optimizer-00003-of-00004.safetensors\", which is not there"));
  save_all(context, store, folder.path(), 5, 4);
  Checkpoint checkpoint;
  REQUIRE(store.load_latest(context, checkpoint));
  CHECK(is_whole(context, checkpoint, 5));
  CHECK(names_in(folder.path()) == Names{"lock", "step-0000000005"});
}

TEST_CASE("a disk that is full of parts is an error, and what was there stays",
          "[unit][checkpoint]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  const int code = in_child([&] {
    if (!mount_memory(folder.path(), "size=2m")) return mounting_not_allowed;
    constexpr std::size_t rows = 20000;
    CheckpointFolder store(folder.path(), {.keep = 5});
    std::uint64_t step = 0;
    std::string message = "no error";
    while (message == "no error" && step < 20) {
      ++step;
      message = message_of([&] { save_all(context, store, folder.path(), step, 4, rows); });
    }
    if (message.find("No space left on device") == std::string::npos ||
        message.find("[file.write]") == std::string::npos)
      return 1;
    store.drop_parts();
    for (const std::string& name : names_in(folder.path()))
      if (name.ends_with(".partial")) return 2;
    Checkpoint checkpoint;
    if (step < 2 || !store.load_latest(context, checkpoint)) return 3;
    if (!is_whole(context, checkpoint, step - 1, rows)) return 4;
    fs::remove_all(folder / "step-0000000001");  // room again
    save_all(context, store, folder.path(), step, 4, rows);
    return store.load_latest(context, checkpoint) && is_whole(context, checkpoint, step, rows) ? 0
                                                                                               : 5;
  });
  if (code == mounting_not_allowed) SOMA_TEST_SKIP("no file system may be mounted here");
  CHECK(code == 0);
}

TEST_CASE("whenever the writers of parts are killed, a whole checkpoint is there",
          "[unit][checkpoint]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  std::uint64_t newest = 0, random = 54321;
  std::size_t torn = 0;
  for (int run = 0; run < 40; ++run) {
    const std::uint64_t reported = last_report_of_killed(random, [&](const auto& report) {
      CheckpointFolder store(folder.path(), {.keep = 2});
      for (std::uint64_t step = newest + 1;; report(step++))
        // Not the same number of parts each time.
        save_all(context, store, folder.path(), step, std::size_t{2} << step % 3, 1000);
    });

    for (const std::string& name : names_in(folder.path())) torn += name.ends_with(".partial");
    CheckpointFolder store(folder.path());
    Checkpoint checkpoint;
    REQUIRE(store.load_latest(context, checkpoint));
    newest = checkpoint.progress.count("step");
    REQUIRE(newest >= reported);
    REQUIRE(newest <= reported + 1);
    REQUIRE(is_whole(context, checkpoint, newest, 1000));
  }
  INFO("killed while writing or deleting: " << torn << " folders");
  CHECK(torn > 0);  // or the moments were not the interesting ones
}
