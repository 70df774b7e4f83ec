#pragma once
// A confusion matrix as a table for spreadsheets.

#include <soma/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

// A cell by RFC 4180: in quotation marks if it needs them.
std::string csv_cell(std::string_view content);

// counts is row-major: element i * labels + j is the number of cases of class i that were predicted
// as class j. The first line and the first column hold the labels. Error csv.size.
std::string confusion_csv(std::span<const std::string> labels,
                          std::span<const std::uint64_t> counts);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/io/impl/confusion_csv.ipp>
#endif
