#pragma once
// Functions of batches of images for MappedSource: inputs are fp32 [images, channels, height,
// width].

#include <soma/data/mapped_source.hpp>

#include <cstddef>
#include <vector>

namespace SOMA_NAMESPACE::data {

// Each image is moved by up to `pad` pixels in both directions, all distances equally likely, with
// 0 where nothing was. Error data.feature: other inputs, or a pad above the smaller side.
MappedSource::Function random_crop(std::size_t pad);

// Each image is mirrored from left to right, or not, both equally likely. Error data.feature.
MappedSource::Function random_flip();

// (x - mean) / deviation of each channel. Errors data.feature: other inputs, not a number for each
// channel, a deviation that is not above 0.
MappedSource::Function normalised(std::vector<float> mean, std::vector<float> deviation);

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/image_maps.ipp>
#endif
