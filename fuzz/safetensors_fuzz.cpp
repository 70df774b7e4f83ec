// Any bytes as a safetensors file: refused, or tensors that lie within it and can be read,
// those in MXFP4 as numbers too.

#include <soma/io/microscaled.hpp>
#include <soma/io/safetensors.hpp>
#include <soma/io/state_hash.hpp>
#include <soma/soma.hpp>

#include "check.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static soma::Context context = soma::make_context({.threads = 1});
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto content = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
  try {
    const soma::SafetensorsFile file = soma::load_safetensors(context, *content, content);
    std::size_t total = 0;
    for (const auto& [name, tensor] : file.tensors) {
      total += tensor.bytes();
      soma_fuzz::check(tensor.contiguous(), "elements are row-major");
    }
    soma_fuzz::check(total <= size, "no more elements than bytes");
    static_cast<void>(soma::state_hash(file.tensors));  // reads every element
    for (const std::string& name : soma::microscaled_names(file.tensors)) {
      const soma::Tensor numbers = soma::read_microscaled(context, file.tensors, name);
      soma_fuzz::check(numbers.bytes() <= 4 * size, "two numbers in a byte");
    }
  } catch (const soma::Error&) {
  }
  return 0;
}
