#pragma once
// What a training run leaves behind so that it can go on, and where that is kept. Files are one
// place (io/checkpoint_folder.hpp); a host with another store derives its own.

#include <soma/state/record.hpp>
#include <soma/state/state_dict.hpp>

#include <cstdint>
#include <string>
#include <string_view>

namespace soma {

struct Checkpoint {
  StateDict weights{}, optimizer{};
  StateDict precision{};         // amax histories behind scales
  Record progress{"progress"};  // step, epoch, position in the data, scale of the loss ...
  // What has to be the same for the run to go on with the same numbers: the model's shape, a hash
  // of the data, options, the library's version, the mode of arithmetic.
  Record identity{"identity"};
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

 protected:
  CheckpointStore() = default;
  CheckpointStore(const CheckpointStore&) = default;
  CheckpointStore& operator=(const CheckpointStore&) = default;
};

// Whether a run with the identity `current` may go on from a checkpoint with the identity `saved`:
// the same names with the same values, in any order. Error checkpoint.identity names the first
// difference and both values.
inline void check_identity(const Record& saved, const Record& current) {
  constexpr std::string_view absent = "not there";
  const auto differ = [](std::string_view name, std::string_view now, std::string_view then) {
    std::string wanted(then);
    fail(error_id::checkpoint_identity, "check_identity", soma::quoted(name), now,
         wanted.append(", as the checkpoint has it"));
  };
  for (const auto& [name, value] : current.entries()) {
    const RecordValue* then = saved.find(name);
    // As text: a file does not say whether a 5 was signed.
    if (then == nullptr) differ(name, to_text(value), absent);
    if (to_text(value) != to_text(*then)) differ(name, to_text(value), to_text(*then));
  }
  for (const auto& [name, value] : saved.entries())
    if (!current.contains(name)) differ(name, absent, to_text(value));
}

}  // namespace soma
