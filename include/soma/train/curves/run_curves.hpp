#pragma once
// RunCurves: loss, metrics and learning rate of a run as a picture that grows with the run.
//
//   soma::train::RunCurves curves({.file = "curves.svg"});
//   trainer.add(curves);
//   trainer.fit(source, &validation);
//
// POSIX. docs/training.md shows a picture.

#include <soma/io/atomic_file.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/system/clock.hpp>
#include <soma/train/curves/chart.hpp>
#include <soma/train/curves/page.hpp>
#include <soma/train/curves/series.hpp>
#include <soma/train/events.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {
class FieldVisitor;  // ops/fields.hpp
}

namespace SOMA_NAMESPACE::train {

struct RunCurvesOptions {
  std::string title = "training";
  std::string file{};  // for the picture (SVG); empty: no picture
  std::string page{};  // for a page (HTML) with the picture of a running training; empty: none
  // Files are written after evaluations and checkpoints, at the end, and at steps at least this far
  // apart.
  double seconds_between = 30;
};
void fields(FieldVisitor& visitor, RunCurvesOptions& options);

// Files are written whole or not at all, and each holds the numbers of its curves. A resumed run
// reads the numbers of earlier steps from the file (or the page), so its picture equals that of a
// run without a break, byte for byte. If the file is missing or is another file, the curves begin
// with the resumed run, and beginning() returns where. Memory and files: at most 1,000 points a
// curve and 16 curves. Errors: file.write, and file.read if an existing file cannot be read.
class RunCurves final : public Callback {
 public:
  // Error train.options: a number out of its range.
  explicit RunCurves(RunCurvesOptions options = {});

  SOMA_INLINE void on_start(const RunInfo& run) override;
  SOMA_INLINE void on_step(const StepInfo& step) override;
  SOMA_INLINE void on_evaluation(const EvaluationInfo& info) override;
  SOMA_INLINE void on_checkpoint(std::uint64_t) override;
  SOMA_INLINE void on_end(const Report&) override;

  // The step at which the curves begin: 0, or the step from which a run resumed without a file of
  // its earlier steps.
  std::uint64_t beginning() const;
  // "loss", "rate", "held_out/loss", "held_out/accuracy" ...; nullptr if there is no such curve.
  // The metric that decides has one, and so have the first three of those where more is better, and
  // of those where less is better, which have a chart of their own.
  const Series* find(std::string_view name) const;
  // The current picture.
  std::string svg() const;
  // Writes the files that the options name. Error file.write.
  void write();

 private:
  struct Named {
    std::string name, title;
    Series series{};
  };
  static constexpr std::size_t most_metrics = 3, most_names = 16;
  // Before the names of curves where less is better.
  static constexpr std::string_view less = "less/";
  static constexpr std::string_view data_id = "soma-run-curves-1";
  static constexpr std::string_view begin_mark = "<metadata id=\"soma-run-curves-1\">",
                                    end_mark = "</metadata>";

  void add(std::string_view name, std::string_view title, std::uint64_t step, double value);
  static void write_whole(const std::string& path, std::string_view content);

  // From 0 to the last step: common to all charts.
  Range steps() const;
  static std::vector<CurvePoint> points_of(const Series& series);
  // An exponential mean over about twenty points, which starts anew after a gap. The weights of the
  // first points are corrected for the short history.
  static std::vector<CurvePoint> smoothed(const std::vector<CurvePoint>& points);

  // Keeps letters, digits and harmless characters; writes other bytes as "%3C".
  static std::string packed(std::string_view name);
  static std::string unpacked(std::string_view text);
  // A line for each curve: name, tab, title, tab, its series.
  std::string data() const;
  // The curves of an earlier picture or page; none if the file is something else.
  void read(const std::string& path);

  RunCurvesOptions options_;
  std::vector<Named> curves_{};
  std::string best_metric_ = "loss";
  std::uint64_t first_step_ = 0;
  std::int64_t written_at_ = 0;
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/curves/impl/run_curves.ipp>
#endif
