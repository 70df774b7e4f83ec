// Checkpoints: whole or not there, whatever happens to the process, the disk and the files.

#include <soma/soma.hpp>
#include <soma/state/arithmetic.hpp>

#include <soma/io/checkpoint_folder.hpp>

#include "catch.hpp"
#include "io/child.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

namespace fs = std::filesystem;

// A checkpoint whose every part tells its step.
Checkpoint sample(Context& context, std::uint64_t step, std::size_t elements = 1000) {
  Checkpoint checkpoint;
  const auto value = static_cast<float>(step);
  checkpoint.weights.set("w", Tensor::full(context, Shape{elements}, value));
  checkpoint.optimizer.set("w.first", Tensor::full(context, Shape{elements}, value + 0.5f));
  checkpoint.progress.set("step", step);
  checkpoint.identity.set("model", "tiny");
  return checkpoint;
}

bool is_sample(const Checkpoint& checkpoint, std::uint64_t step) {
  const auto all = [](const Tensor& tensor, float value) {
    for (const float element : tensor.span<float>())
      if (element != value) return false;
    return tensor.elements() != 0;
  };
  const auto value = static_cast<float>(step);
  return checkpoint.progress.count("step") == step && all(checkpoint.weights.at("w"), value) &&
         all(checkpoint.optimizer.at("w.first"), value + 0.5f) &&
         checkpoint.identity.text("model") == "tiny";
}

void flip_byte(const std::string& path, std::size_t at) {
  std::string text = read_text(path);
  text.at(at) = static_cast<char>(text[at] ^ 1);
  write_text(path, text);
}

struct Messages {
  std::vector<std::string> all;
  LogSink sink() {
    return {this, [](void* self, LogLevel, std::string_view message) {
              static_cast<Messages*>(self)->all.emplace_back(message);
            }};
  }
};

}  // namespace

TEST_CASE("the newest checkpoints are kept, and the newest is loaded", "[unit][checkpoint]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  const std::string path = folder / "run/checkpoints";
  CheckpointFolder store(path, {.keep = 2});
  Checkpoint checkpoint;
  CHECK_FALSE(store.load_latest(context, checkpoint));
  CHECK_FALSE(store.load_best(context, checkpoint));
  for (const std::uint64_t step : {1u, 5u, 20u, 300u}) {
    store.save(step, sample(context, step));
    REQUIRE(store.load_latest(context, checkpoint));
    CHECK(is_sample(checkpoint, step));
  }
  CHECK(names_in(path) == std::vector<std::string>{"lock", "step-0000000020", "step-0000000300"});
  CHECK(names_in(path + "/step-0000000300") ==
        std::vector<std::string>{"checksums.txt", "identity.json", "optimizer.safetensors",
                                 "precision.safetensors", "progress.json", "weights.safetensors"});
  CHECK(read_text(path + "/step-0000000300/progress.json") == "{\"step\": 300}\n");
  store.save(300, sample(context, 300, 7));  // again
  REQUIRE(store.load_latest(context, checkpoint));
  CHECK(checkpoint.weights.at("w").elements() == 7);
  CHECK(message_of([&] { store.save(299, sample(context, 299)); }) ==
        "CheckpointFolder::save: step is 299, wanted at least 300, the newest in \"" + path +
            "\" [checkpoint.step]");
  // More digits than the name has room for come after all others.
  store.save(12345678901, sample(context, 6));
  CHECK(store.steps() == std::vector<std::uint64_t>{300, 12345678901});
  REQUIRE(store.load_latest(context, checkpoint));
  CHECK(is_sample(checkpoint, 6));

  store.save_best(sample(context, 3));
  store.save_best(sample(context, 4));
  REQUIRE(store.load_best(context, checkpoint));
  CHECK(is_sample(checkpoint, 4));
  CHECK(is_sample(load_checkpoint(context, path + "/best"), 4));
  CHECK(names_in(path).size() == 4);  // nothing is left over
}

TEST_CASE("a folder that is cleared has no checkpoints", "[unit][checkpoint]") {
  auto context = make_context();
  const TemporaryFolder folder;
  CheckpointFolder store(folder / "run");
  CHECK_FALSE(store.newest());
  store.save(7, sample(context, 7));
  store.save(9, sample(context, 9));
  store.save_best(sample(context, 7));
  CHECK(store.newest() == 9);
  fs::create_directories(folder / "run/step-0000000003.damaged");
  store.clear();
  CHECK_FALSE(store.newest());
  Checkpoint checkpoint;
  CHECK_FALSE(store.load_latest(context, checkpoint));
  CHECK_FALSE(store.load_best(context, checkpoint));
  CHECK(fs::exists(folder / "run/step-0000000003.damaged"));
  store.save(2, sample(context, 2));
  CHECK(store.newest() == 2);
}

TEST_CASE("tensors outlive the files that they were read from", "[unit][checkpoint]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  CheckpointFolder store(folder.path(), {.keep = 1});
  store.save(1, sample(context, 1, 100000));
  Checkpoint first;
  REQUIRE(store.load_latest(context, first));
  store.save(2, sample(context, 2, 100000));
  CHECK(store.steps() == std::vector<std::uint64_t>{2});
  CHECK(is_sample(first, 1));
}

TEST_CASE("names that are no checkpoints are left alone", "[unit][checkpoint]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  std::vector<std::string> others;
  for (const char* name : {"step-12", "step-00000000012", "step-000000001x", "step-0000000009.bak",
                           "notes", "step-99999999999999999999", "my.partial", "my.1.2.partial",
                           "step-0000000007.partial", "step-0000000007.1.x.partial"}) {
    fs::create_directory(folder / name);
    others.emplace_back(name);
  }
  for (const char* name : {"step-0000000007.1.2.partial", "best.12.34567.partial"})
    fs::create_directory(folder / name);
  CheckpointFolder store(folder.path());
  Checkpoint checkpoint;
  CHECK_FALSE(store.load_latest(context, checkpoint));
  store.save(1, sample(context, 1));
  CHECK(store.steps() == std::vector<std::uint64_t>{1});
  for (const std::string& name : others) CHECK(fs::exists(folder / name));
  // The remains of a killed process.
  CHECK_FALSE(fs::exists(folder / "step-0000000007.1.2.partial"));
  CHECK_FALSE(fs::exists(folder / "best.12.34567.partial"));
}

TEST_CASE("a damaged checkpoint gives way to the one before", "[unit][checkpoint]") {
  Messages messages;
  auto context = make_context({.log = messages.sink(), .threads = 1});
  const TemporaryFolder folder;
  CheckpointFolder store(folder.path(), {.keep = 1});
  Checkpoint checkpoint;
  const std::string newest = folder / "step-0000000002";
  struct Damage {
    const char* file;
    const char* message;
    void (*make)(const std::string&);
  };
  const auto flip = [](const std::string& path) { flip_byte(path, read_text(path).size() / 2); };
  const auto cut = [](const std::string& path) { fs::resize_file(path, fs::file_size(path) - 1); };
  const auto remove = [](const std::string& path) { fs::remove(path); };
  const auto grow = [](const std::string& path) { write_text(path, read_text(path) + "\n"); };
  const Damage damages[] = {
      {"weights.safetensors", "has a weights.safetensors that does not match its checksum", flip},
      {"weights.safetensors", "has a weights.safetensors that does not match", cut},
      {"optimizer.safetensors", "has no optimizer.safetensors", remove},
      {"progress.json", "has a progress.json that does not match its checksum", flip},
      {"identity.json", "has a identity.json that does not match its checksum", grow},
      {"checksums.txt", "that does not match its checksum", flip},
      {"checksums.txt", "that does not match its checksum", cut},
      {"checksums.txt", "has a checksums.txt with more lines than files", grow},
      {"checksums.txt", "has no checksums.txt", remove},
  };
  for (const auto& [file, message, make] : damages) {
    for (const std::uint64_t step : store.steps())
      fs::remove_all(folder / ("step-000000000" + std::to_string(step)));
    {
      // Another object, which keeps more.
      const TemporaryFolder aside;
      CheckpointFolder other(aside.path());
      other.save(1, sample(context, 1));
      other.save(2, sample(context, 2));
      for (const char* name : {"step-0000000001", "step-0000000002"})
        fs::copy(aside / name, folder / name);
    }
    make(newest + "/" + file);
    const std::string error = message_of([&] { load_checkpoint(context, newest); });
    CHECK_THAT(error, contains(message));
    CHECK_THAT(error, contains("[checkpoint.damaged]"));
    messages.all.clear();
    REQUIRE(store.load_latest(context, checkpoint));
    CHECK(is_sample(checkpoint, 1));
    REQUIRE(messages.all.size() == 1);
    CHECK_THAT(messages.all[0], contains(message));
    CHECK(store.steps() == std::vector<std::uint64_t>{1});
    CHECK(fs::exists(newest + ".damaged"));
  }
  // The one that a run goes on from is not what a damaged one pushes out.
  store.save(2, sample(context, 2));
  flip_byte(folder / "step-0000000002/progress.json", 3);
  CHECK_THAT(message_of([&] { store.load_latest(context, checkpoint); }),
             contains("step-0000000002\", which has a progress.json that does not match its "
                      "checksum, wanted a whole checkpoint [checkpoint.damaged]"));
  CHECK(store.steps() == std::vector<std::uint64_t>{2});  // nothing was renamed
}

TEST_CASE("a folder of others with a checkpoint's name stays", "[unit][checkpoint]") {
  Messages messages;
  auto context = make_context({.log = messages.sink(), .threads = 1});
  const TemporaryFolder folder;
  CheckpointFolder store(folder.path(), {.keep = 1});
  Checkpoint checkpoint;
  fs::create_directory(folder / "step-0000000000");
  fs::create_directory(folder / "step-9999999999");
  write_text(folder / "step-9999999999/notes.txt", "mine");
  write_text(folder / "step-0000000777", "mine");
  CHECK_FALSE(store.load_latest(context, checkpoint));
  CHECK(messages.all.size() == 3);
  CHECK(store.steps().empty());
  for (const std::uint64_t step : {1u, 2u}) store.save(step, sample(context, step));
  CHECK(store.steps() == std::vector<std::uint64_t>{2});
  for (const bool only_name : {false, true}) {
    messages.all.clear();
    if (only_name)
      CHECK(store.find_latest(context) == "step-0000000002");
    else
      REQUIRE(store.load_latest(context, checkpoint));
    REQUIRE(messages.all.size() == 3);
    std::string all;
    for (const std::string& message : messages.all) all += message + "\n";
    const std::string line = "CheckpointFolder: \"" + (folder / "step-9999999999") +
                             "\" is no checkpoint, in spite of its name; it is left alone\n";
    CHECK_THAT(all, contains(line.c_str()));
  }
  CHECK(is_sample(checkpoint, 2));
  CHECK(id_of([&] { store.save(777, sample(context, 777)); }) == "checkpoint.step");
  CHECK(read_text(folder / "step-9999999999/notes.txt") == "mine");
  CHECK(read_text(folder / "step-0000000777") == "mine");
  CHECK(fs::exists(folder / "step-0000000000"));
}

TEST_CASE("a run does not go on in other arithmetic", "[unit][checkpoint]") {
  auto fast = make_context({.threads = 1});
  const TemporaryFolder folder;
  CheckpointFolder store(folder.path());
  Checkpoint checkpoint = sample(fast, 1);
  add_arithmetic(checkpoint.identity, fast);
  store.save(1, checkpoint);
  REQUIRE(store.load_latest(fast, checkpoint));
  Record current("identity");
  current.set("model", "tiny");
  add_arithmetic(current, fast);
  check_identity(checkpoint.identity, current);
  current.set("soma.math", "portable");
  CHECK(message_of([&] { check_identity(checkpoint.identity, current); }) ==
        "check_identity: \"soma.math\" is \"portable\", wanted \"fast\", as the checkpoint has it "
        "[checkpoint.identity]");
}

TEST_CASE("one at a time uses a folder", "[unit][checkpoint]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  const auto locked = [&] {
    return message_of([&] { CheckpointFolder(folder.path()); }) ==
           "CheckpointFolder: folder is \"" + folder.path() +
               "\", which is in use, wanted a folder that nobody else writes to "
               "[checkpoint.locked]";
  };
  {
    CheckpointFolder store(folder.path());
    CHECK(locked());
    CHECK(in_child([&] { return locked() ? 0 : 1; }) == 0);
    store.save_best(sample(context, 1));
    CHECK(is_sample(load_checkpoint(context, folder / "best"), 1));  // reading is free
  }
  CHECK_FALSE(locked());
  write_text(folder / "file", "");
  CHECK(id_of([&] { CheckpointFolder(folder / "file"); }) == "file.write");
}

TEST_CASE("a checkpoint that cannot be written changes nothing", "[unit][checkpoint]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  CheckpointFolder store(folder.path(), {.keep = 1});
  store.save(1, sample(context, 1));
  Checkpoint bad = sample(context, 2);
  bad.identity.set("text", "\xff");  // the last file
  CHECK(id_of([&] { store.save(2, bad); }) == "record.text");
  CHECK(names_in(folder.path()) == std::vector<std::string>{"lock", "step-0000000001"});
}

TEST_CASE("a full disk is an error, and the checkpoints before it stay", "[unit][checkpoint]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  const int code = in_child([&] {
    if (!mount_memory(folder.path(), "size=2m")) return mounting_not_allowed;
    CheckpointFolder store(folder.path(), {.keep = 5});
    std::uint64_t step = 0;
    std::string message = "no error";
    while (message == "no error" && step < 20) {
      ++step;
      message = message_of([&] { store.save(step, sample(context, step, 60000)); });
    }
    if (message.find("No space left on device") == std::string::npos ||
        message.find("[file.write]") == std::string::npos)
      return 1;
    for (const std::string& name : names_in(folder.path()))
      if (name.ends_with(".partial")) return 2;
    Checkpoint checkpoint;
    if (step < 2 || !store.load_latest(context, checkpoint)) return 3;
    if (!is_sample(checkpoint, step - 1)) return 4;
    if (store.steps().size() != step - 1) return 5;
    fs::remove_all(folder / "step-0000000001");  // room again
    store.save(step, sample(context, step, 60000));
    return store.load_latest(context, checkpoint) && is_sample(checkpoint, step) ? 0 : 6;
  });
  if (code == mounting_not_allowed) SOMA_TEST_SKIP("no file system may be mounted here");
  CHECK(code == 0);
}

TEST_CASE("whenever the writer is killed, a whole checkpoint is there", "[unit][checkpoint]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  std::uint64_t newest = 0, random = 12345;
  std::size_t partial = 0;
  for (int run = 0; run < 50; ++run) {
    const std::uint64_t reported = last_report_of_killed(random, [&](const auto& report) {
      CheckpointFolder store(folder.path(), {.keep = 2});
      for (std::uint64_t step = newest + 1;; report(step++)) {
        const Checkpoint checkpoint = sample(context, step, 20000);
        store.save(step, checkpoint);
        store.save_best(checkpoint);
      }
    });

    for (const std::string& name : names_in(folder.path())) partial += name.ends_with(".partial");
    CheckpointFolder store(folder.path());
    Checkpoint checkpoint;
    REQUIRE(store.load_latest(context, checkpoint));
    newest = checkpoint.progress.count("step");
    REQUIRE(newest >= reported);
    REQUIRE(newest <= reported + 1);
    REQUIRE(is_sample(checkpoint, newest));
    for (const std::uint64_t step : store.steps())  // the older one is whole too
      REQUIRE(is_sample(
          load_checkpoint(context,
                          folder / ("step-" + std::string(10 - std::to_string(step).size(), '0') +
                                    std::to_string(step))),
          step));
    REQUIRE(store.load_best(context, checkpoint));
    const std::uint64_t best = checkpoint.progress.count("step");
    REQUIRE((best == newest || best + 1 == newest));
    REQUIRE(is_sample(checkpoint, best));
  }
  INFO("killed while writing or deleting: " << partial << " folders");
  CHECK(partial > 0);  // or the moments were not the interesting ones
}

TEST_CASE("a checkpoint of a model with operators of its own says which are missing", "[unit]") {
  auto context = make_context({.threads = 1});
  Checkpoint checkpoint = sample(context, 3);
  checkpoint.progress.set("operators", "mine::leaky");
  const TemporaryFolder folder;
  CheckpointFolder(folder / "run").save_best(checkpoint);
  CHECK(message_of([&] {
          load_checkpoint(context, folder / "run/best");
        }).find("\"mine::leaky\", which the checkpoint's model ran") != std::string::npos);
  register_elementwise(context.operators(), "mine::leaky", [](float x) { return x; });
  CHECK(is_sample(load_checkpoint(context, folder / "run/best"), 3));
}
