#pragma once
// Progress: the numbers that a resumed run continues from, beside weights and moments. One visitor
// both writes and reads them, so that no number can be saved and not loaded.

#include <soma/base/record.hpp>
#include <soma/data/batch.hpp>
#include <soma/optim/loss_scaler.hpp>
#include <soma/optim/schedule.hpp>

#include <cstdint>
#include <string_view>

namespace SOMA_NAMESPACE::train {

struct Progress {
  std::uint64_t step = 0, batches = 0, skipped = 0, skipped_in_a_row = 0;
  data::Position position{};  // the position of the next batch
  double last_loss = 0;
  std::uint64_t steps = 0;  // planned steps of the whole run; 0: not known
  // Evaluations: the step of the last one, the best value of the chosen metric, and the number of
  // worse evaluations since.
  std::uint64_t evaluated_at = 0, stale = 0;
  bool has_best = false;
  double best = 0;
  optim::Plateau plateau{};
  float loss_scale = 0;
  std::uint64_t loss_scale_good_steps = 0;

  // Calls visit(name, number) for each number.
  template <class Visit>
  void visit(const Visit& visit) {
    visit("step", step);
    visit("epoch", position.epoch);
    visit("batch", position.batch);
    visit("batches", batches);
    visit("skipped", skipped);
    visit("skipped_in_a_row", skipped_in_a_row);
    visit("evaluated_at", evaluated_at);
    visit("stale", stale);
    visit("has_best", has_best);
    visit("best", best);
    visit("last_loss", last_loss);
    visit("steps", steps);
    visit("plateau_best", plateau.best);
    visit("plateau_known", plateau.known);
    visit("plateau_worse", plateau.worse);
    visit("plateau_reductions", plateau.reductions);
    visit("loss_scale", loss_scale);
    visit("loss_scale_good_steps", loss_scale_good_steps);
  }

  // Forgets the best evaluation, and those that were worse.
  void forget_best();

  void write(Record& record);
  // Errors record.missing, record.type.
  static Progress read(const Record& record);
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/progress.ipp>
#endif
