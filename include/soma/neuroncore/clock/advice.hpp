#pragma once
// Advice: what would make a program faster, by how much, and where. Each rule changes the record as
// the advised program would ("fp32 products as bf16", "one load instead of 64 of the same bytes"),
// and the clock times the changed record: the difference is the gain. Advice with the largest gain
// comes first; below advice_least there is none.
//
// A gain is what the clock predicts for that change alone. Gains of several rules do not add up.

#include <soma/neuroncore/clock/timeline.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

inline constexpr double advice_least = 0.03;  // of the program's time

struct Advice {
  double gain = 0;                 // the share of the program's time that it saves
  std::string text{};              // what to do
  std::vector<std::string> lines;  // "softmax.cpp:12": where, the largest part first
};

// "saves 45.2 %: ... (softmax.cpp:12, softmax.cpp:14)"
std::string to_string(const Advice& advice);

// `timeline` is that of the record, with the same options. Takes about as long as ten timelines.
std::vector<Advice> advice(std::span<const Instruction> record, const Machine& machine,
                           const Timeline& timeline, const ClockOptions& options = {});

namespace detail {

class Advisor {
 public:
  Advisor(std::span<const Instruction> record, const Machine& machine, const Timeline& timeline,
          const ClockOptions& options);

  std::vector<Advice> run();

 private:
  // The engine whose time a rule shortens; none: it shortens waits.
  using Shortened = std::optional<Engine>;

  // An instruction's part of the path that decides the end: ns.
  struct Part {
    double ran = 0, waited = 0;
  };

  // `factor(instruction)`: the share of its time that each instruction keeps; 1: all of it.
  template <class Factor>
  void faster(Shortened engine, std::string_view text, const Factor& factor) {
    std::vector<float> factors(record_.size(), 1.0f);
    std::vector<double> weights(record_.size());
    double most = 0;  // the path with the changed instructions is no shorter than that
    for (std::size_t i = 0; i < record_.size(); ++i) {
      const double kept = factor(record_[i], i);
      if (kept == 1) continue;
      factors[i] = static_cast<float>(kept);
      weights[i] = (1 - kept) * parts_[i].ran + (kept == 0 ? parts_[i].waited : 0);
      most += weights[i];
    }
    if (most < advice_least * timeline_.ns) return;
    add(engine, std::string(text), Clock(record_, machine_, options_, factors).run().ns, weights);
  }
  // The same program without a kind of wait.
  void without_wait(std::string_view text, Bound bound, const Machine& machine,
                    const ClockOptions& options);
  void add(Shortened engine, std::string text, double ns, const std::vector<double>& weights);

  void rules_of_tensor();
  void rules_of_lanes();
  void rules_of_transfers();
  // For each transfer the share of its time that the same bytes take in pieces that are as long as
  // they can be.
  std::vector<double> in_long_pieces() const;
  void same_bytes();
  void two_buffers();
  void whole_engines();
  double busy_share(Engine engine) const;

  std::span<const Instruction> record_;
  const Machine& machine_;
  const Timeline& timeline_;
  ClockOptions options_;
  std::vector<Part> parts_;
  std::array<double, engine_count> busy_{};
  std::array<double, engine_count> best_{};  // the largest gain of a rule about one engine
  std::vector<Advice> found_;
};

}  // namespace detail

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/clock/impl/advice.ipp>
#endif
