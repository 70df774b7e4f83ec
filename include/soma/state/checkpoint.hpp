#pragma once
// What a training run leaves behind so that it can go on, and where that is kept. Files are one
// place (io/checkpoint_folder.hpp); a host with another store derives its own.

#include <soma/base/record.hpp>
#include <soma/state/state_dict.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace soma {

struct Checkpoint {
  StateDict weights{}, optimizer{};
  StateDict precision{};        // amax histories behind scales
  Record progress{"progress"};  // step, epoch, position in the data, scale of the loss ...
  // What has to be the same for the run to go on with the same numbers: the model's shape, a hash
  // of the data, options, the library's version, the mode of arithmetic.
  Record identity{"identity"};
  // Given to save() only: `optimizer` is empty, and so many parts of it were given to save_part().
  // 0: it is here. What is loaded is whole.
  std::size_t optimizer_parts = 0;
  StateDict task{};  // what the task keeps beside weights; of most it is empty
};

// Of tensors whose rows are cut into `count` parts, the one at place `index`: part after part they
// are the whole (join_parts() puts them together).
struct CheckpointPart {
  std::size_t index = 0, count = 1;
};

class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;

  // Keeps it as the newest. When this returns it is safe; when it throws, what was there before is.
  virtual void save(std::uint64_t step, const Checkpoint& checkpoint) = 0;
  // The newest whole one; false: there is none. Its tensors may be read-only.
  virtual bool load_latest(Context& context, Checkpoint& checkpoint) = 0;

  // The one that did best so far, beside the others: a new one replaces it.
  virtual void save_best(const Checkpoint& checkpoint) = 0;
  virtual bool load_best(Context& context, Checkpoint& checkpoint) = 0;

  // Where ranks share an optimizer's states, each of them writes its own part, with a store of its
  // own: rank 0 begins and gets a name for the place, all save their parts there, and when the last
  // is done rank 0 calls save(), with which they become part of the checkpoint. Until then nothing
  // is seen of them; what was begun and not saved is dropped, at the latest with the store, and
  // never gets into another checkpoint. Error checkpoint.parts: a store that cannot do that.
  virtual std::string begin_parts(std::uint64_t /*step*/) { no_parts(); }
  virtual void save_part(const std::string& /*place*/, const CheckpointPart& /*part*/,
                         const StateDict& /*optimizer*/) {
    no_parts();
  }
  virtual void drop_parts() {}

 protected:
  CheckpointStore() = default;
  CheckpointStore(const CheckpointStore&) = default;
  CheckpointStore& operator=(const CheckpointStore&) = default;

 private:
  [[noreturn]] static void no_parts() {
    fail(error_id::checkpoint_parts, "CheckpointStore", "store", "one that takes whole states only",
         "one that ranks can save parts to, such as CheckpointFolder");
  }
};

// Whether a run with the identity `current` may go on from a checkpoint with the identity `saved`:
// the same names with the same values, in any order. Error checkpoint.identity names all that
// differs, with both values.
inline void check_identity(const Record& saved, const Record& current) {
  std::string names, given, wanted;
  const auto differ = [&](std::string_view name, std::string_view now, std::string_view then) {
    const std::string_view comma = names.empty() ? "" : ", ";
    names.append(comma).append(soma::quoted(name));
    given.append(comma).append(now);
    wanted.append(comma).append(then);
  };
  constexpr std::string_view absent = "not there";
  for (const auto& [name, value] : current.entries()) {
    const RecordValue* then = saved.find(name);
    // As text: a file does not say whether a 5 was signed.
    if (then == nullptr)
      differ(name, to_text(value), absent);
    else if (to_text(value) != to_text(*then))
      differ(name, to_text(value), to_text(*then));
  }
  for (const auto& [name, value] : saved.entries())
    if (!current.contains(name)) differ(name, absent, to_text(value));
  if (!names.empty())
    fail(error_id::checkpoint_identity, "check_identity", names, given,
         wanted.append(", as the checkpoint has it"));
}

}  // namespace soma
