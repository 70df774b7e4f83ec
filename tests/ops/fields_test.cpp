// Settings list all that they hold: a member that is not listed would be no part of a graph's key.

#include <soma/ops/choose/settings.hpp>
#include <soma/ops/element/settings.hpp>
#include <soma/ops/fields.hpp>
#include <soma/ops/image/settings.hpp>
#include <soma/ops/loss/settings.hpp>
#include <soma/ops/operator.hpp>
#include <soma/ops/optimizer/settings.hpp>
#include <soma/ops/rows/settings.hpp>
#include <soma/ops/sequence/settings.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/sparse/table.hpp>

#include "catch.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

using namespace soma;

namespace {

// Marks the bytes of a struct that its fields are; those of members that are shown as copies (a
// type that may be left out, a shape) are counted.
class Mark final : public FieldVisitor {
 public:
  Mark(std::byte* begin, std::size_t size) : begin_(begin), marked(size) {}

 protected:
  void found(const Field& field) override {
    const auto* at = static_cast<std::byte*>(field.value);
    if (at < begin_ || at >= begin_ + marked.size()) return;
    for (std::size_t i = 0; i < field.bytes; ++i)
      marked[static_cast<std::size_t>(at - begin_) + i] = true;
  }
  void found_pointer(std::string_view, const void*) override { ++pointers; }

 private:
  std::byte* begin_;

 public:
  std::vector<bool> marked;
  std::size_t pointers = 0;
};

#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
#define SOMA_TEST_PADDING 1
#endif
#endif

// Bytes of members that no field shows, besides pointers: `copied` of them are expected.
template <class T>
void check_all_listed(const char* name, std::size_t copied = 0) {
  INFO(name);
  T value{};
  Mark mark(reinterpret_cast<std::byte*>(&value), sizeof value);
  fields(mark, value);
#ifdef SOMA_TEST_PADDING
  std::vector<std::byte> bytes(sizeof(T), std::byte{0xff});
  alignas(T) std::byte room[sizeof(T)];
  std::memcpy(room, bytes.data(), sizeof(T));
  __builtin_clear_padding(reinterpret_cast<T*>(room));
  std::size_t missing = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    missing += room[i] != std::byte{0} && !mark.marked[i] ? 1 : 0;
  CHECK(missing == copied + mark.pointers * sizeof(void*));
#endif
  CHECK(Attributes(value).lists_fields());
}

struct Unlisted {
  int value = 0;
};

}  // namespace

TEST_CASE("settings list every member", "[unit]") {
  constexpr std::size_t type = sizeof(std::optional<DType>);  // shown as a copy
  // The address of packed weights is listed where there is one, and not in keys without; so is
  // `microscaled`.
  check_all_listed<LinearSetting>("linear", type + sizeof(void*) + sizeof(bool));
  check_all_listed<QuantizedLinearSetting>("quantized linear");
  check_all_listed<QuantizedConvolutionSetting>("quantized convolution");
  check_all_listed<MatmulSetting>("matmul", type + sizeof(bool));
  // Grouped heads and scaled turns are listed where they are given, as packed weights are.
  check_all_listed<AttentionSetting>("attention", 2 * sizeof(std::size_t));
  check_all_listed<EmbeddingSetting>("embedding");
  check_all_listed<NormSetting>("norm");
  check_all_listed<SoftmaxSetting>("softmax");
  check_all_listed<ReduceSetting>("reduce");
  check_all_listed<CrossEntropySetting>("cross entropy");
  check_all_listed<ElementLossSetting>("element loss");
  check_all_listed<MaxPoolSetting>("max pool");
  check_all_listed<ReshapeSetting>("reshape", sizeof(Shape));
  check_all_listed<TransposeSetting>("transpose");
  check_all_listed<SliceSetting>("slice");
  check_all_listed<CastSetting>("cast");
  check_all_listed<QuantizeSetting>("quantize", sizeof(std::string_view));  // a rounding's name
  check_all_listed<SgdSetting>("sgd");
  check_all_listed<AdamSetting>("adam");
  check_all_listed<LambSetting>("lamb");
  check_all_listed<RmsSetting>("rms");
  check_all_listed<AdafactorSetting>("adafactor");
  check_all_listed<AveragePoolSetting>("average pool");
  check_all_listed<BatchNormSetting>("batch norm");
  check_all_listed<ClampSetting>("clamp");
  check_all_listed<CosineLossSetting>("cosine loss");
  check_all_listed<DimensionSetting>("gather");
  check_all_listed<LeakySetting>("leaky");
  check_all_listed<PadSetting>("pad");
  check_all_listed<PowerSetting>("power");
  check_all_listed<TopKSetting>("top k");
  check_all_listed<TransposedSetting>("transposed convolution");
  check_all_listed<RecurrentSetting>("recurrent");
  check_all_listed<RotarySetting>("rotary", sizeof(RotaryScaling) - 3);
  check_all_listed<RotaryScaling>("rotary scaling");
  check_all_listed<RnnSetting>("rnn");
  check_all_listed<CtcSetting>("ctc");
  check_all_listed<HeadGradientSetting>("head gradient", 2 * type);
  check_all_listed<ConvolutionSetting>("convolution");
  check_all_listed<EmbeddingBagSetting>("embedding bag");
  check_all_listed<ListLossSetting>("list loss");
  check_all_listed<BagLossSetting>("bag loss");
  check_all_listed<RowStepSetting>("row step");
  CHECK_FALSE(Attributes(Unlisted{}).lists_fields());
  CHECK(Attributes().lists_fields());
}
