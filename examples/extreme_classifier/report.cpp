#include "extreme_classifier/report.hpp"

#include <soma/base/fixed.hpp>
#include <soma/system/process.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

using soma::fixed;

void RunReport::print(std::ostream& out) const {
  const soma::nn::ClassSampler::Times& times = model_.sampler().times();
  const auto share = [&](const char* what, double seconds) {
    out << "  " << what
        << std::string(34 - std::min<std::size_t>(33, std::string(what).size()), ' ')
        << fixed(100 * seconds / seconds_, 1) << " %\n";
  };
  out << "rows of classes that a step touches: "
      << fixed(static_cast<double>(touched_) /
                   static_cast<double>(std::max(steps_, std::uint64_t{1})),
               0)
      << " of " << model_.options().classes << "\nshares of the time by the clock\n";
  share("waiting for batches", reading_);
  share("refreshing the index", times.refreshing);
  share("choosing classes", times.choosing);
  double rest = seconds_ - reading_ - times.refreshing - times.choosing;
  for (const soma::ProfileRow& row : rows_) {
    rest -= row.seconds;
    if (row.seconds > 0.01 * seconds_) share(std::string(row.name).c_str(), row.seconds);
  }
  share("all else", rest);
  double numbers = 0;
  for (const soma::Parameter& parameter : model_.parameters())
    numbers += static_cast<double>(parameter.value().elements());
  const auto mib = [](double bytes) { return fixed(bytes / (1 << 20), 0) + " MiB"; };
  out << "memory: weights " << mib(4 * numbers) << ", moments " << mib(8 * numbers) << ", index ";
  const auto& index = model_.sampler().index();
  out << mib(index ? static_cast<double>(soma::nn::class_index_bytes(
                         model_.options().classes, index->tables(), index->codes()))
                   : 0.0)
      << ", at most resident " << mib(static_cast<double>(soma::peak_resident_bytes())) << '\n';
}

void print_recall(std::ostream& out, soma::Context& context,
                  const soma::models::ExtremeClassifier& model,
                  const soma::data::SparsePoints& points) {
  constexpr std::size_t most_points = 200, ranks[3] = {1, 10, 100};
  const std::size_t classes = model.options().classes, width = model.options().width;
  soma::data::PointSource source(context, points,
                                 {.batch_sequences = most_points, .shuffle = false});
  soma::data::Batch batch;
  source.next(batch);
  const auto exact = model.top(batch, 100);
  const soma::Tensor h = model.hidden_of(batch);
  soma::nn::ClassSearch search =
      model.search({.index = model.options().sampler.index, .head = 0, .candidates = classes});
  double found[3] = {}, wanted[3] = {}, looked_at = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto seen = search.candidates_of(h.data<float>() + i * width);
    std::vector<std::int32_t> sorted(seen.begin(), seen.end());
    std::sort(sorted.begin(), sorted.end());
    looked_at += static_cast<double>(sorted.size());
    for (std::size_t k = 0; k < exact[i].size(); ++k)
      for (std::size_t r = 0; r < 3; ++r) {
        if (k >= ranks[r]) continue;
        ++wanted[r];
        found[r] += std::binary_search(sorted.begin(), sorted.end(), exact[i][k].id) ? 1 : 0;
      }
  }
  out << "an index of " << search.index().tables() << " tables of 8^" << search.index().codes()
      << " buckets finds";
  for (std::size_t r = 0; r < 3; ++r)
    out << (r == 0 ? " " : ", ") << fixed(found[r] / wanted[r], 3) << " of the likeliest "
        << ranks[r];
  out << " among " << fixed(looked_at / static_cast<double>(exact.size()), 0)
      << " classes a point\n";
}
