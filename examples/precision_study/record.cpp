// Stores results as lines of a file, so that an interrupted study can continue.

#include "study.hpp"

#include <charconv>

soma::Record to_record(const RunResult& result) {
  soma::Record record("run");
  record.set("policy", result.policy);
  record.set("seed", result.seed);
  record.set("formats", result.formats);
  record.set("conditions", result.conditions);
  record.set("accuracy", result.accuracy);
  record.set("evaluation_loss", result.evaluation_loss);
  record.set("train_loss", result.train_loss);
  record.set("peak_bytes", result.peak_bytes);
  record.set("tokens_per_second", result.tokens_per_second);
  record.set("skipped", result.skipped);
  record.set("underflow", result.underflow);
  record.set("saturated", result.saturated);
  record.set("signal_to_noise", result.signal_to_noise);
  record.set("unmoved", result.unmoved);
  std::string curve;
  for (const double loss : result.curve)
    curve.append(curve.empty() ? "" : " ").append(soma::to_text(loss));
  record.set("curve", curve);
  return record;
}

RunResult to_result(const soma::Record& record) {
  RunResult result;
  result.policy = record.text("policy");
  result.formats = record.text("formats");
  result.conditions = record.text("conditions");
  result.seed = record.count("seed");
  result.accuracy = record.number("accuracy");
  result.evaluation_loss = record.number("evaluation_loss");
  result.train_loss = record.number("train_loss");
  result.peak_bytes = record.number("peak_bytes");
  result.tokens_per_second = record.number("tokens_per_second");
  result.skipped = record.number("skipped");
  result.underflow = record.number("underflow");
  result.saturated = record.number("saturated");
  result.signal_to_noise = record.number("signal_to_noise");
  result.unmoved = record.number("unmoved");
  const std::string& curve = record.text("curve");
  const char* at = curve.data();
  const char* const end = at + curve.size();
  for (double value = 0; at < end;) {
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc{}) break;
    result.curve.push_back(value);
    at = next == end ? end : next + 1;
  }
  return result;
}
