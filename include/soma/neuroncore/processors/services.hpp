#pragma once
// The services of soma/plugin.h for one Processor: an Error becomes a status, and is thrown when
// the kernel has returned.

#include <soma/neuroncore/processors/processor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

namespace detail {

Processor& processor_of(const soma_processor* processor);

// service(processor) as a status.
template <class Service>
int processor_status(soma_processor* record, const Service& service) noexcept {
  Processor& processor = processor_of(record);
#if SOMA_HAS_EXCEPTIONS
  try {
    service(processor);
    return 0;
  } catch (...) {
    processor.keep_problem();
    return 1;
  }
#else
  service(processor);
  return 0;
#endif
}
// service(processor) as a pointer; nullptr: it failed.
template <class Result, class Service>
Result* processor_pointer(soma_processor* record, const Service& service) noexcept {
  Result* result = nullptr;
  processor_status(record, [&](Processor& processor) { result = service(processor); });
  return result;
}

inline const soma_processor_services processor_services = {
    .struct_bytes = sizeof(soma_processor_services),
    .make =
        [](soma_processor* record, std::int32_t dtype, std::int32_t rank,
           const std::int64_t* sizes) noexcept {
          return processor_pointer<soma_processor_tensor>(record, [&](Processor& processor) {
            return &processor.make(dtype, {sizes, static_cast<std::size_t>(rank)});
          });
        },
    .release =
        [](soma_processor* record, soma_processor_tensor* tensor) noexcept {
          processor_status(record, [&](Processor& processor) { processor.release(tensor); });
        },
    .fill =
        [](soma_processor* record, soma_processor_tensor* tensor,
           const soma_processor_operand* value) noexcept {
          return processor_status(
              record, [&](Processor& processor) { processor.fill(tensor_of(*tensor), *value); });
        },
    .apply =
        [](soma_processor* record, std::int32_t function, soma_processor_tensor* result,
           const soma_processor_operand* operands, std::int32_t count) noexcept {
          return processor_pointer<soma_processor_tensor>(record, [&](Processor& processor) {
            return &processor.apply(function, result == nullptr ? nullptr : &tensor_of(*result),
                                    {operands, static_cast<std::size_t>(count)});
          });
        },
    .open_elements =
        [](soma_processor* record, soma_processor_tensor* tensor, std::int32_t dtype,
           std::int32_t rank, int writes) noexcept {
          return processor_status(record, [&](Processor& processor) {
            processor.open_elements(tensor_of(*tensor), dtype, rank, writes != 0);
          });
        },
    .bad_index =
        [](soma_processor* record, soma_processor_tensor* tensor, std::int32_t dimension,
           std::int64_t index) noexcept {
          processor_status(record, [&](Processor& processor) {
            processor.bad_index(tensor_of(*tensor), dimension, index);
          });
        },
    .incoherent =
        [](soma_processor* record, soma_processor_tensor* tensor) noexcept {
          return processor_status(record, [&](Processor& processor) {
            processor.incoherent(tensor_of(*tensor),
                                 "touched by an element accessor while a stream is open");
          });
        },
    .open_stream =
        [](soma_processor* record, soma_processor_tensor* tensor, std::int32_t dtype,
           int writes) noexcept {
          return processor_pointer<soma_processor_stream>(record, [&](Processor& processor) {
            return &processor.open_stream(tensor_of(*tensor), dtype, writes != 0);
          });
        },
    .advance =
        [](soma_processor* record, soma_processor_stream* stream) noexcept {
          return processor_status(record, [&](Processor& processor) {
            processor.advance(*static_cast<ProcessorStream*>(stream->host));
          });
        },
    .close_stream =
        [](soma_processor* record, soma_processor_stream* stream) noexcept {
          return processor_status(record, [&](Processor& processor) {
            processor.close(*static_cast<ProcessorStream*>(stream->host));
          });
        },
    .end_stream =
        [](soma_processor* record, soma_processor_stream* stream) noexcept {
          processor_status(record, [&](Processor& processor) {
            processor.end(*static_cast<ProcessorStream*>(stream->host));
          });
        },
    .pool_allocate =
        [](soma_processor* record, std::size_t bytes) noexcept {
          return processor_pointer<void>(
              record, [&](Processor& processor) { return processor.allocate(bytes); });
        },
    .pool_free =
        [](soma_processor* record, void* pointer) noexcept {
          return processor_status(record, [&](Processor& processor) { processor.free(pointer); });
        },
    .copy =
        [](soma_processor* record, soma_processor_tensor* tensor, std::int32_t dtype, void* local,
           std::uint64_t first, std::uint64_t count, int to_tensor) noexcept {
          return processor_status(record, [&](Processor& processor) {
            processor.copy(tensor_of(*tensor), dtype, local, first, count, to_tensor != 0);
          });
        },
    .output =
        [](soma_processor* record) noexcept {
          return processor_pointer<soma_processor_tensor>(
              record, [](Processor& processor) { return &processor.output(); });
        },
    .print =
        [](soma_processor* record, const char* text, std::size_t bytes) noexcept {
          processor_status(record, [&](Processor& processor) { processor.print(text, bytes); });
        },
    .refuse =
        [](soma_processor* record, const char* what, const char* given,
           const char* wanted) noexcept {
          processor_status(record,
                           [&](Processor& processor) { processor.refuse(what, given, wanted); });
        },
};

}  // namespace detail

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/processors/impl/services.ipp>
#endif
