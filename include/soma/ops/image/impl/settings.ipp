#pragma once
// The fields of the settings, one by one.

#include <soma/ops/image/settings.hpp>

namespace SOMA_NAMESPACE {

SOMA_INLINE void fields(FieldVisitor& visitor, AveragePoolSetting& setting) {
  visitor.key("kernel_height", setting.kernel_height);
  visitor.key("kernel_width", setting.kernel_width);
  visitor.key("steps", setting.steps);
  visitor.key("count_padding", setting.count_padding);
  visitor.key("out_height", setting.out_height);
  visitor.key("out_width", setting.out_width);
}

SOMA_INLINE void fields(FieldVisitor& visitor, TransposedSetting& setting) {
  visitor.key("steps", setting.steps);
  visitor.key("extra_height", setting.extra_height);
  visitor.key("extra_width", setting.extra_width);
}

SOMA_INLINE void fields(FieldVisitor& visitor, ResizeSetting& setting) {
  visitor.key("height", setting.height);
  visitor.key("width", setting.width);
  visitor.key("bilinear", setting.bilinear);
  visitor.key("align_corners", setting.align_corners);
}

SOMA_INLINE void fields(FieldVisitor& visitor, QuantizedConvolutionSetting& setting) {
  visitor.key("steps", setting.steps);
  visitor.key("transposed", setting.transposed);
  visitor.pointer("formats", setting.formats);
  visitor.run_time("step", setting.step);
  visitor.key("training", setting.training);
  visitor.key("record", setting.record);
}

}  // namespace SOMA_NAMESPACE
