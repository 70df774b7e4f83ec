// Any bytes as a model.safetensors.index.json: refused, or names of files that stay in its folder.

#include <soma/models/pretrained.hpp>

#include "check.hpp"
#include "memory_file.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const soma_fuzz::MemoryFile file(data, size);
  try {
    const auto files = soma::models::detail::shard_names("fuzz", file.path());
    soma_fuzz::check(!files.empty(), "there is a file");
    for (const auto& [name, tensors] : files) {
      soma_fuzz::check(name.find('/') == std::string::npos && name != "..", "of the same folder");
      soma_fuzz::check(!tensors.empty(), "which holds something");
    }
  } catch (const soma::Error&) {
  }
  return 0;
}
