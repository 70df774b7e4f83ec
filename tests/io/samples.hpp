// A state with every dtype that files have, and files to put it into.
#pragma once

#include <soma/state/state_dict.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <unistd.h>

namespace soma_test {

// Elements whose bytes are 1, 2, 3 ... (bools: 1, 0, 1 ...), as in reference.py.
inline soma::Tensor counting_bytes(soma::Context& context, const soma::Shape& shape,
                                   soma::DType dtype) {
  const soma::Tensor tensor = soma::Tensor::empty(context, shape, dtype);
  std::byte* bytes = tensor.mutable_raw();
  for (std::size_t i = 0; i < tensor.bytes(); ++i)
    bytes[i] = std::byte(dtype == soma::DType::boolean ? (i + 1) % 2 : (i + 1) % 256);
  return tensor;
}

// The tensors of reference.py.
inline soma::StateDict state(soma::Context& context) {
  using soma::DType;
  soma::StateDict result;
  const auto add = [&](const char* name, DType dtype, const soma::Shape& shape) {
    result.set(name, counting_bytes(context, shape, dtype));
  };
  add("layer.1.weight", DType::fp32, {2, 3});
  add("layer.1.bias", DType::fp32, {3});
  add("layer.10.bias", DType::fp16, {2});
  add("embedding", DType::bf16, {2, 2});
  add("a", DType::boolean, {3});
  add("b", DType::uint8, {1, 3});
  add("c", DType::int8, {2});
  add("d", DType::fp8_e5m2, {1});
  add("e", DType::fp8_e4m3fn, {2});
  add("g", DType::e8m0, {2});
  add("f", DType::int32, {1});
  add("position_ids", DType::int64, {1, 2});
  add("scalar", DType::fp32, {});
  add("empty", DType::fp32, {2, 0});
  add("quote\"\\ \n\u00e9/\u007f\u0001", DType::fp32, {1});
  return result;
}

// A tensor of the same elements, none of which are neighbours.
inline soma::Tensor scattered(soma::Context& context, const soma::Tensor& tensor) {
  const std::size_t rank = tensor.rank();
  if (rank == 0 || rank == soma::max_rank || tensor.elements() == 0) return tensor;
  std::vector<std::size_t> sizes(tensor.shape().begin(), tensor.shape().end());
  sizes.insert(sizes.begin(), sizes.back() * 2);
  sizes.pop_back();
  soma::Tensor result =
      soma::Tensor::zeros(context, soma::Shape(std::span<const std::size_t>(sizes)), tensor.dtype())
          .slice(0, 1, soma::to_end, 2);
  for (std::size_t i = 0; i + 1 < rank; ++i) result = result.transpose(i, i + 1);
  copy(tensor, result);
  return result;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    // Memory where there is some: every file is synchronised, which a disk takes its time for.
    std::string folder = std::filesystem::temp_directory_path().string();
    if (access("/dev/shm", W_OK | X_OK) == 0) folder = "/dev/shm";
    std::string pattern = folder + "/soma_io.XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::string path_;
};

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void write_text(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

template <std::size_t Size>
std::string text_of(const unsigned char (&bytes)[Size]) {
  return {reinterpret_cast<const char*>(bytes), Size};
}

// The sorted names of a folder's entries.
inline std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace soma_test
