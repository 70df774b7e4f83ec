#include "training/observers.hpp"

#include "training/launch/launch.hpp"

#include <soma/runtime/host.hpp>
#include <soma/soma.hpp>

#include <iostream>

#include <unistd.h>

Observers::Observers(const RunOptions& options, Launch& launch, Compute& compute,
                     const Setting& setting)
    : options_(options) {
  soma::Context& context = compute.context();
  if (!options.quiet) {
    launch.warn(std::cerr);
    const soma::HostDescription host = describe_host(context, soma::Measure::products);
    const double peak = host.product_gflops_per_core(setting.narrow_products);
    progress_.emplace(std::cerr,
                      soma::train::ConsoleProgressOptions{.terminal = isatty(STDERR_FILENO) != 0,
                                                          .peak_gflops = peak * host.threads});
  }
  if (!options.profile.empty()) profile_.emplace(context, options.profile, std::cerr);
  if (!options.log_json.empty())
    json_log_.emplace(options.log_json, options.resume, launch.rank(), launch.size());
  if (!options.tensorboard.empty()) tensorboard_.emplace(options.tensorboard, compute.device());
  if (options.publish) published_.emplace(soma::train::own_command(), setting.kind);
  if (published_ && options.compute.predict)
    published_->write([&](soma::train::StatusPublisher& page) {
      page.show_engines([&] { return compute.device()->runs().predicted; },
                        [&] { return compute.device_bytes(); });
    });
  if (!options.plot.empty() || !setting.page.empty())
    curves_.emplace(soma::train::RunCurvesOptions{
        .title = setting.title, .file = options.plot, .page = setting.page});
}

void Observers::watch(soma::train::TrainerBase& trainer) {
  const auto add = [&](auto& callback) {
    if (callback) trainer.add(*callback);
  };
  add(progress_);
  add(profile_);
  add(json_log_);
  add(tensorboard_);
  add(published_);
  add(curves_);
}

std::string Observers::end(const soma::train::Report& report,
                           const std::optional<soma::train::Evaluation>& tested,
                           const std::string& hash) {
  if (json_log_)
    json_log_->write([&](JsonLog& log) {
      if (tested) log.tested(*tested);
      log.done(report, hash);
    });
  std::string picture;
  if (!curves_) return picture;
  curves_->write([&](const soma::train::RunCurves& known) {
    picture = known.svg();
    if (known.beginning() != 0 && !options_.quiet)
      std::cerr << "the curves begin after step " << known.beginning()
                << ": no file has the curves of earlier steps\n";
  });
  return picture;
}
