// safetensors: the reference implementation's bytes, both ways; what is skipped, shared and kept.

#include <soma/io.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "io/reference.inc"
#include "io/samples.hpp"
#include "support/errors.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

bool same(const StateDict& a, const StateDict& b, Context& context) {
  return std::ranges::equal(a, b, [&](const auto& left, const auto& right) {
    const Tensor x = contiguous(context, left.second), y = contiguous(context, right.second);
    return left.first == right.first && x.shape() == y.shape() && x.dtype() == y.dtype() &&
           std::equal(x.raw(), x.raw() + x.bytes(), y.raw());
  });
}

}  // namespace

TEST_CASE("a file of the reference implementation is read", "[unit][io][safetensors]") {
  auto context = make_context();
  const TemporaryFolder folder;
  write_text(folder / "x", text_of(reference_safetensors));
  const SafetensorsFile file = load_safetensors(context, folder / "x");
  CHECK(same(file.tensors, state(context), context));
  CHECK(file.metadata == SafetensorsMetadata{{"format", "pt"}});
  CHECK(file.skipped.empty());
  CHECK(file.at("position_ids").dtype() == DType::int64);
  CHECK(file.at("scalar").rank() == 0);
  CHECK(file.at("empty").shape() == Shape{2, 0});
}

TEST_CASE("what is written is what the reference implementation writes",
          "[unit][io][safetensors]") {
  auto context = make_context();
  const TemporaryFolder folder;
  save_safetensors(folder / "x", state(context), {{"format", "pt"}});
  CHECK(read_text(folder / "x") == text_of(reference_safetensors));
  StateDict apart;
  for (const auto& [name, tensor] : state(context)) apart.set(name, scattered(context, tensor));
  save_safetensors(folder / "x", apart, {{"format", "pt"}});
  CHECK(read_text(folder / "x") == text_of(reference_safetensors));
  CHECK(folder.files() == 1);
}

TEST_CASE("tensors that come one at a time make the same file", "[unit][io][safetensors]") {
  // Makes each tensor when it is asked for.
  struct Source final : TensorSource {
    explicit Source(Context& memory) : context(memory), all(state(memory)) {
      for (const auto& [name, tensor] : all) outlines.emplace_back(name, tensor.outline());
    }
    std::span<const StateDict::Entry> entries() const override { return outlines; }
    Tensor fetch(std::size_t i) override {
      const Tensor& tensor = all.at(outlines[i].first);
      return i == wrong ? Tensor::zeros(context, Shape{5}, tensor.dtype()) : clone(context, tensor);
    }
    Context& context;
    StateDict all;
    std::vector<StateDict::Entry> outlines{};
    std::size_t wrong = ~std::size_t{0};
  };
  auto context = make_context();
  const TemporaryFolder folder;
  Source source(context);
  context.heap().reset_peak();
  const std::size_t before = context.heap().bytes_in_use();
  save_safetensors(folder / "x", source, {{"format", "pt"}});
  CHECK(read_text(folder / "x") == text_of(reference_safetensors));
  CHECK(state_hash(source) == state_hash(source.all));
  CHECK(context.heap().peak_bytes() <= before + 4 * 64);  // a block for each tensor, and its count
  source.wrong = 0;
  CHECK(id_of([&] { save_safetensors(folder / "x", source); }) == "safetensors.size");
  CHECK(read_text(folder / "x") == text_of(reference_safetensors));
}

TEST_CASE("nothing, and much", "[unit][io][safetensors]") {
  auto context = make_context();
  const TemporaryFolder folder;
  save_safetensors(folder / "x", {});
  CHECK(read_text(folder / "x") == std::string("\x08\0\0\0\0\0\0\0{}      ", 16));
  CHECK(load_safetensors(context, folder / "x").tensors.empty());
  StateDict many;
  for (int i = 0; i < 2000; ++i)
    many.set("tensor." + std::to_string(i), Tensor::full(context, {2, 1}, i));
  many.set("large", counting_bytes(context, {700, 300}, DType::fp16));
  const SafetensorsMetadata metadata{{"a", ""}, {"\u00fc", "line\nline"}};
  save_safetensors(folder / "x", many, metadata);
  const SafetensorsFile file = load_safetensors(context, folder / "x");
  CHECK(same(file.tensors, many, context));
  CHECK(file.metadata == metadata);
}

TEST_CASE("tensors of a file are its memory, read-only, and keep it", "[unit][io][safetensors]") {
  auto context = make_context();
  const TemporaryFolder folder;
  save_safetensors(folder / "x", state(context));
  Tensor tensor;
  {
    const SafetensorsFile file = load_safetensors(context, folder / "x");
    tensor = file.at("layer.1.weight");
  }
  std::filesystem::remove(folder / "x");
  CHECK(tensor.raw()[23] == std::byte{24});
  CHECK(id_of([&] { tensor.mutable_raw(); }) == "tensor.read_only");
  CHECK(tensor.storage().bytes() == 24);
  CHECK_NOTHROW(clone(context, tensor).mutable_raw());
}

TEST_CASE("content in memory is used where it lies", "[unit][io][safetensors]") {
  auto context = make_context();
  auto owner = std::make_shared<std::string>(text_of(reference_safetensors));
  const std::weak_ptr<std::string> watch = owner;
  const auto bytes = std::as_bytes(std::span(*owner));
  SafetensorsFile file = load_safetensors(context, bytes, owner);
  owner.reset();
  CHECK(file.at("b").raw() > bytes.data());
  CHECK(file.at("b").raw() < bytes.data() + bytes.size());
  CHECK_FALSE(watch.expired());
  file = {};
  CHECK(watch.expired());
}

TEST_CASE("data that are not aligned are copied", "[unit][io][safetensors]") {
  auto context = make_context();
  const std::string header = R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("b":{"dtype":"I32","shape":[1],"data_offsets":[1,5]},)"
                             R"("c":{"dtype":"F16","shape":[0],"data_offsets":[5,5]}})";
  alignas(64) std::byte content[512];
  std::size_t size = 0;
  const auto put = [&](const void* from, std::size_t bytes) {
    std::memcpy(content + size, from, bytes);
    size += bytes;
  };
  const std::uint64_t length = header.size();
  put(&length, 8);
  put(header.data(), header.size());
  put("\x07\x01\x02\x03\x04", 5);
  // Whatever the alignment of the whole, one of the two is not aligned.
  for (std::size_t shift = 0; shift < 4; ++shift) {
    std::memmove(content + shift, content + (shift == 0 ? 0 : shift - 1), size);
    const std::span<const std::byte> bytes(content + shift, size);
    const SafetensorsFile file = load_safetensors(context, bytes, nullptr);
    CHECK(file.at("b").item<std::int32_t>() == 0x04030201);
    CHECK(reinterpret_cast<std::uintptr_t>(file.at("b").raw()) % 4 == 0);
    CHECK(file.at("a").raw() == bytes.data() + size - 5);
    CHECK(file.at("c").elements() == 0);
  }
}

TEST_CASE("tensors that soma has no place for are skipped", "[unit][io][safetensors]") {
  auto context = make_context();
  const std::string header =
      R"({"wide":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
      R"("four":{"dtype":"F4","shape":[4],"data_offsets":[8,10]},)"
      R"("six":{"dtype":"F6_E2M3","shape":[2,2],"data_offsets":[10,13]},)"
      R"("new":{"dtype":"Q3","shape":[7],"data_offsets":[13,14]},)"
      R"("deep":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[14,15]},)"
      R"("fnuz":{"dtype":"F8_E4M3FNUZ","shape":[1],"data_offsets":[15,16]},)"
      R"("here":{"dtype":"I8","shape":[1],"data_offsets":[16,17]}})";
  const std::uint64_t length = header.size();
  const std::string content =
      std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(17, '\1');
  const SafetensorsFile file =
      load_safetensors(context, std::as_bytes(std::span(content)), nullptr);
  CHECK(file.tensors.size() == 2);
  CHECK(file.at("here").item<std::int8_t>() == 1);
  CHECK(file.at("fnuz").dtype() == DType::fp8_e4m3fnuz);
  std::string skipped;
  for (const SkippedTensor& tensor : file.skipped)
    skipped += tensor.name + ": " + tensor.reason + "; ";
  CHECK(skipped == "deep: rank 9; four: F4; new: unknown dtype \"Q3\"; six: F6_E2M3; wide: F64; ");
  CHECK(message_of([&] { file.at("wide"); }) ==
        "SafetensorsFile::at: \"wide\" is F64, wanted a dtype and rank that tensors have "
        "[safetensors.dtype]");
  CHECK(id_of([&] { file.at("nothing"); }) == "state.missing_name");
}

TEST_CASE("what has no name in the format is not written", "[unit][io][safetensors]") {
  auto context = make_context();
  const TemporaryFolder folder;
  const auto refusal = [&](const char* name, DType dtype,
                           const SafetensorsMetadata& metadata = {}) {
    StateDict tensors;
    tensors.set(name, Tensor::zeros(context, {1}, dtype));
    return message_of([&] { save_safetensors(folder / "x", tensors, metadata); });
  };
  CHECK(refusal("w", DType::tf32) ==
        "save_safetensors: \"w\" is [1] tf32, wanted one of bool uint8 int8 fp8_e5m2 fp8_e4m3fn "
        "e8m0 int16 uint16 fp16 bf16 int32 uint32 fp32 int64 [safetensors.dtype]");
  for (const DType dtype :
       {DType::fp8_e3m4, DType::fp8_e4m3, DType::fp8_e4m3fnuz, DType::fp8_e5m2fnuz})
    CHECK(refusal("w", dtype).find("[safetensors.dtype]") != std::string::npos);
  CHECK(refusal("__metadata__", DType::fp32) ==
        "save_safetensors: name is \"__metadata__\", wanted a name that the format does not "
        "reserve [safetensors.name]");
  CHECK(refusal("\xFF", DType::fp32) ==
        "save_safetensors: name is \"\xFF\", wanted valid UTF-8 [safetensors.name]");
  CHECK(refusal("a\xC3", DType::fp32).find("[safetensors.name]") != std::string::npos);
  CHECK(refusal("w", DType::fp32, {{"\xFF", "x"}}).find("[safetensors.name]") != std::string::npos);
  CHECK(refusal("w", DType::fp32, {{"k", "x"}, {"k", "y"}}).find("[safetensors.name]") !=
        std::string::npos);
  CHECK(folder.files() == 0);
  StateDict good;
  good.set("w", Tensor::scalar(context, 1.0f));
  CHECK(id_of([&] { save_safetensors(folder / "no/x", good); }) == "file.write");
  CHECK(id_of([&] { load_safetensors(context, folder / "x"); }) == "file.read");
}

TEST_CASE("the hash of a state is the contract's", "[unit][io][state_hash]") {
  auto context = make_context();
  CHECK(state_hash({}) == reference_empty_hash);
  CHECK(state_hash(state(context)) == reference_state_hash);
  StateDict apart;
  for (const auto& [name, tensor] : state(context)) apart.set(name, scattered(context, tensor));
  CHECK(state_hash(apart) == reference_state_hash);
  apart.at("layer.1.bias").mutable_data<float>()[0] = 1;
  CHECK(state_hash(apart) != reference_state_hash);

  StateDict one, two;
  one.set("w", Tensor::zeros(context, {2, 3}));
  two.set("w", Tensor::zeros(context, {3, 2}));
  CHECK(state_hash(one) != state_hash(two));
  StateDict tf;
  tf.set("w", Tensor::zeros(context, {2, 3}, DType::tf32));
  CHECK(message_of([&] { state_hash(tf); }).find("state_hash: \"w\" is [2, 3] tf32") == 0);
}

TEST_CASE("large rows are hashed in pieces as well as at once", "[unit][io][state_hash]") {
  auto context = make_context();
  for (const DType dtype : {DType::int8, DType::fp16, DType::fp32, DType::int64}) {
    const Tensor tensor = counting_bytes(context, {3, 5000}, dtype);
    StateDict at_once, in_pieces, rows;
    at_once.set("w", tensor);
    in_pieces.set("w", scattered(context, tensor));
    const Tensor wide = Tensor::zeros(context, {3, 6000}, dtype).slice(1, 7, 5007);
    copy(tensor, wide);
    rows.set("w", wide);
    CHECK_FALSE(in_pieces.at("w").contiguous());
    CHECK(state_hash(at_once) == state_hash(in_pieces));
    CHECK(state_hash(at_once) == state_hash(rows));
  }
}
