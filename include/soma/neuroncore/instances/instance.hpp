#pragma once
// Instance: a machine to rent by the hour, as data: its chips, their links, its host, its price.
// Each figure names its source; where two public sources disagree, both are kept.

#include <soma/base/error.hpp>
#include <soma/neuroncore/figures.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

// Chips as a grid whose rows and columns are rings; 0 x 0: one chip, without links.
struct Torus {
  std::size_t rows = 0, columns = 0;
};

struct Instance {
  std::string_view name;
  std::size_t chips = 0;           // accelerators, "devices" of the vendor's tools
  std::size_t cores_per_chip = 0;  // NeuronCores; 0: another kind of accelerator
  Figure device_gib{};             // memory of all chips, GiB
  Figure device_gb_per_s{};        // bandwidth of that memory, 10^9 bytes a second
  Figure vcpus{};
  Figure host_gib{};  // memory of the host, GiB
  Figures network_gbit{};
  Figure nvme_drives{}, nvme_gb{};  // local drives, and 10^9 bytes of each
  Torus torus{};
  Figure link_gb_per_s{};  // NeuronLink of a chip, all links, 10^9 bytes a second
  Figure efa_gbit{};       // between instances that support it
  Figures bf16_tflops{}, fp32_tflops{};
  Figure dollars_per_hour{};

  constexpr std::size_t cores() const { return chips * cores_per_chip; }
};

namespace detail {

inline constexpr std::string_view trn1_pages =
    "AWS Neuron documentation, about-neuron/arch/neuron-hardware/trn1-arch";
inline constexpr std::string_view ec2_page = "aws.amazon.com/ec2/instance-types/trn1";
inline constexpr std::string_view sagemaker_prices =
    "price of ml.trn1.32xlarge that the vendor's fine-tuning comparison names";
inline constexpr std::string_view fine_tuning = "the vendor's fine-tuning comparison";

}  // namespace detail

// The instances that are known by name. The 32 cores of the large instances are 16 chips in a torus
// of 4 x 4.
inline constexpr std::array<Instance, 3> instances{{
    {.name = "trn1.2xlarge",
     .chips = 1,
     .cores_per_chip = 2,
     .device_gib = {32, detail::trn1_pages},
     .device_gb_per_s = {820, detail::trn1_pages},
     .vcpus = {8, detail::trn1_pages},
     .host_gib = {32, detail::trn1_pages},
     .network_gbit = {{12.5, detail::ec2_page}, {25, detail::trn1_pages}},
     .nvme_drives = {1, detail::ec2_page},
     .nvme_gb = {500, detail::ec2_page},
     .bf16_tflops = {{190, detail::trn1_pages}, {}},
     .fp32_tflops = {{47.5, detail::trn1_pages}, {}}},
    {.name = "trn1.32xlarge",
     .chips = 16,
     .cores_per_chip = 2,
     .device_gib = {512, detail::trn1_pages},
     .device_gb_per_s = {13120, detail::trn1_pages},
     .vcpus = {128, detail::trn1_pages},
     .host_gib = {512, detail::trn1_pages},
     .network_gbit = {{800, detail::trn1_pages}, {}},
     .nvme_drives = {4, detail::ec2_page},
     .nvme_gb = {2000, detail::ec2_page},
     .torus = {4, 4},
     .link_gb_per_s = {384, detail::trn1_pages},
     .efa_gbit = {800, detail::trn1_pages},
     .bf16_tflops = {{3400, detail::ec2_page}, {3040, detail::trn1_pages}},
     .fp32_tflops = {{760, detail::trn1_pages}, {}},
     .dollars_per_hour = {24.725, detail::sagemaker_prices}},
    {.name = "trn1n.32xlarge",
     .chips = 16,
     .cores_per_chip = 2,
     .device_gib = {512, detail::trn1_pages},
     .device_gb_per_s = {13120, detail::trn1_pages},
     .vcpus = {128, detail::trn1_pages},
     .host_gib = {512, detail::trn1_pages},
     .network_gbit = {{1600, detail::trn1_pages}, {}},
     .nvme_drives = {4, detail::ec2_page},
     .nvme_gb = {2000, detail::ec2_page},
     .torus = {4, 4},
     .link_gb_per_s = {768, detail::trn1_pages},
     .efa_gbit = {1600, detail::trn1_pages},
     .bf16_tflops = {{3400, detail::ec2_page}, {3040, detail::trn1_pages}},
     .fp32_tflops = {{760, detail::trn1_pages}, {}}},
}};

// The instance of that name. Error neuroncore.instance lists the known names.
const Instance& instance_of(std::string_view name);

// The chips that are linked to chip `device`, ascending: its neighbours in its row and its column;
// the first and the last of a row or column are neighbours too. Empty if there are no links. Error
// neuroncore.instance: no such chip.
std::array<std::optional<std::size_t>, 4> linked_chips(const Instance& instance,
                                                       std::size_t device);

// One side of the fine-tuning that the vendor published (a text classifier, BERT-base, one epoch):
// steps a second, accuracy, seconds and dollars as printed, and peaks relative to trn1.
struct PublishedRun {
  std::string_view instance;
  double dollars_per_hour = 0;
  double steps_per_second = 0, accuracy = 0, seconds = 0, dollars = 0;
  double bf16_peak = 1, tf32_peak = 1, fp32_peak = 1;

  constexpr double computed_dollars() const { return dollars_per_hour * seconds / 3600; }
};
inline constexpr PublishedRun published_trn1{.instance = "trn1.32xlarge",
                                             .dollars_per_hour = 24.725,
                                             .steps_per_second = 6.64,
                                             .accuracy = 0.984,
                                             .seconds = 6033,
                                             .dollars = 41.47};
inline constexpr PublishedRun published_p4d{.instance = "p4d.24xlarge",
                                            .dollars_per_hour = 37.69,
                                            .steps_per_second = 5.44,
                                            .accuracy = 0.984,
                                            .seconds = 6553,
                                            .dollars = 68.6,
                                            .bf16_peak = 1 / 1.4,
                                            .tf32_peak = 1 / 2.5,
                                            .fp32_peak = 1.0 / 5};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/instances/impl/instance.ipp>
#endif
