#pragma once
// The state that a training run saves in order to be resumed, and the interface to the place that
// keeps it. io/checkpoint_folder.hpp keeps it in files; a host with another store derives its own.

#include <soma/base/record.hpp>
#include <soma/state/state_dict.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE {

// The states of a checkpoint, in the order of their files.
enum class CheckpointState : std::uint8_t {
  weights,
  optimizer,
  precision,  // amax histories behind scales
  task,       // the task's state beside weights; if it is empty, as for most tasks, there is no
              // file
};
inline constexpr std::array all_checkpoint_states{
    CheckpointState::weights, CheckpointState::optimizer, CheckpointState::precision,
    CheckpointState::task};

// A number of parts for each state; 0: the state is whole.
struct CheckpointParts {
  std::array<std::size_t, all_checkpoint_states.size()> counts{};

  std::size_t& operator[](CheckpointState state);
  std::size_t operator[](CheckpointState state) const;
  bool any() const;
};

struct Checkpoint {
  StateDict weights{}, optimizer{}, precision{}, task{};
  Record progress{"progress"};  // step, epoch, position in the data, scale of the loss ...
  // The facts that must be the same for a resumed run to give the same numbers: the model's shape,
  // a hash of the data, options, the library's version, the mode of arithmetic.
  Record identity{"identity"};
  // For save() only: a state that save_part() has stored in this number of parts is empty here.
  // Loaded states are whole.
  CheckpointParts parts{};

  const StateDict& state(CheckpointState which) const;
  StateDict& state(CheckpointState which);
};

// One of `count` parts of a state. Each tensor lies in one part as a whole, or its rows lie in
// consecutive parts: part after part, the rows form the whole (join_parts() combines them).
struct CheckpointPart {
  std::size_t index = 0, count = 1;
};

// The entries of weights and optimizer that a rank needs.
class CheckpointNames {
 public:
  virtual ~CheckpointNames() = default;
  virtual bool wants(std::string_view name) const = 0;

 protected:
  CheckpointNames() = default;
  CheckpointNames(const CheckpointNames&) = default;
  CheckpointNames& operator=(const CheckpointNames&) = default;
};

class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;

  // Stores the checkpoint as the newest. When this returns, the checkpoint is safe; when it throws,
  // the earlier ones are.
  virtual void save(std::uint64_t step, const Checkpoint& checkpoint) = 0;
  // Loads the newest complete checkpoint; returns false if there is none. Its tensors may be
  // read-only.
  virtual bool load_latest(Context& context, Checkpoint& checkpoint) = 0;
  // The step of the newest checkpoint; none: the store is empty, or cannot say. A run that does not
  // resume begins only if there is none: checkpoints of two runs would mix.
  virtual std::optional<std::uint64_t> newest() const { return std::nullopt; }

  // The checkpoint with the best evaluation so far, beside the others: a new one replaces it.
  virtual void save_best(const Checkpoint& checkpoint) = 0;
  virtual bool load_best(Context& context, Checkpoint& checkpoint) = 0;

  // If several ranks have a part of the states each, every rank writes its own part, with a store
  // of its own. Rank 0 begins (`step`: not set for the best checkpoint) and gets a name for the
  // place; all ranks save their parts there; when all are done, rank 0 calls save() or save_best(),
  // which makes the parts a checkpoint. Until then the parts are invisible. Parts that were begun
  // and not saved are dropped, at the latest with the store, and never get into another checkpoint.
  // Error checkpoint.parts: a store without this ability.
  SOMA_INLINE virtual std::string begin_parts(std::optional<std::uint64_t> /*step*/);
  SOMA_INLINE virtual void save_part(const std::string& /*place*/, CheckpointState /*which*/,
                                     const CheckpointPart& /*part*/, const StateDict& /*state*/);
  virtual void drop_parts() {}

  // And every rank reads its own entries: rank 0 finds the newest complete checkpoint, or the best
  // one, and returns the name of its place (empty: there is none). With that name each rank loads
  // the records, the precision, the task's state, and its entries of weights and optimizer,
  // whichever rank wrote them.
  SOMA_INLINE virtual std::string find_latest(Context& /*context*/);
  SOMA_INLINE virtual std::string find_best();
  SOMA_INLINE virtual Checkpoint load_named(Context& /*context*/, const std::string& /*place*/,
                                            const CheckpointNames& /*names*/);

 protected:
  CheckpointStore() = default;
  CheckpointStore(const CheckpointStore&) = default;
  CheckpointStore& operator=(const CheckpointStore&) = default;

 private:
  [[noreturn]] static void no_parts();
};

// Checks that a run with the identity `current` may resume from a checkpoint with the identity
// `saved`: the same names with the same values, in any order. Error checkpoint.identity names all
// differences, with both values.
void check_identity(const Record& saved, const Record& current);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/state/impl/checkpoint.ipp>
#endif
