#pragma once
// Instance: a machine to rent by the hour, as data: its chips, their links, its host, its price.
// Each figure names its source; where two public sources disagree, both are kept.

#include <soma/base/error.hpp>
#include <soma/neuroncore/figures.hpp>
#include <soma/neuroncore/machine.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

// Chips as a grid whose rows and columns are rings; 0 x 0: one chip, without links.
struct Torus {
  std::size_t rows = 0, columns = 0;
};

// The bandwidth between two chips of a distance, 10^9 bytes a second and chip.
struct LinkDistance {
  std::string_view distance{};  // "in a server"; empty: there is none
  Figure gb_per_s{};
};

struct Instance {
  std::string_view name;
  std::size_t chips = 0;                  // accelerators, "devices" of the vendor's tools
  std::size_t cores_per_chip = 0;         // NeuronCores; 0: another kind of accelerator
  const Machine* machine = &machines[0];  // each core is one
  std::size_t servers = 1;                // with equal shares of the chips
  // Cores that appear as one (LNC) by default: two share a bank of device memory on Trn2 and Trn3.
  std::size_t logical_cores = 1;
  Figure device_gib{};        // memory of all chips, GiB
  Figures device_gb_per_s{};  // bandwidth of that memory, 10^9 bytes a second
  Figure vcpus{};
  Figure host_gib{};  // memory of the host, GiB
  Figures network_gbit{};
  Figure nvme_drives{}, nvme_gb{};      // local drives, and 10^9 bytes of each
  Torus torus{};                        // in each server; equal places of several servers are rings
  bool switched = false;                // every chip is linked to every other
  Figure link_gb_per_s{};               // NeuronLink of a chip, all links, 10^9 bytes a second
  std::array<LinkDistance, 3> links{};  // the same by distance, where it differs
  Figure efa_gbit{};                    // between instances that support it
  Figures bf16_tflops{}, fp32_tflops{};
  Figure fp8_tflops{};                 // fp8, on Trn3 MX
  bool published_collectives = false;  // collective_seconds() knows its times
  Figure dollars_per_hour{};

  constexpr std::size_t cores() const { return chips * cores_per_chip; }
  constexpr std::size_t chips_per_server() const { return chips / servers; }
};

namespace detail {

inline constexpr std::string_view trn1_pages =
    "AWS Neuron documentation, about-neuron/arch/neuron-hardware/trn1-arch";
inline constexpr std::string_view trn2_pages =
    "AWS Neuron documentation, about-neuron/arch/neuron-hardware/trn2-arch";
inline constexpr std::string_view trn2_guide =
    "AWS Neuron documentation, nki/guides/architecture/trainium2_arch: 3 TB/s a chip";
inline constexpr std::string_view trn2_chip =
    "AWS Neuron documentation, about-neuron/arch/neuron-hardware/trainium2";
inline constexpr std::string_view trn3_pages =
    "AWS Neuron documentation, about-neuron/arch/neuron-hardware/trn3-arch";
inline constexpr std::string_view trn3_guide =
    "AWS Neuron documentation, nki/guides/architecture/trainium3_arch: 4.7 TB/s a chip";
inline constexpr std::string_view trn3_chip =
    "AWS Neuron documentation, about-neuron/arch/neuron-hardware/trainium3";
inline constexpr std::string_view ec2_page = "aws.amazon.com/ec2/instance-types/trn1";
inline constexpr std::string_view sagemaker_prices =
    "price of ml.trn1.32xlarge that the vendor's fine-tuning comparison names";
inline constexpr std::string_view fine_tuning = "the vendor's fine-tuning comparison";
inline constexpr std::array<LinkDistance, 3> trn3_links{{{"in a server", {256, trn3_pages}},
                                                         {"in a rack", {320, trn3_pages}},
                                                         {"between racks", {128, trn3_pages}}}};

}  // namespace detail

// The instances that are known by name. The 32 cores of the large instances of Trn1 are 16 chips in
// a torus of 4 x 4.
inline constexpr std::array<Instance, 7> instances{{
    {.name = "trn1.2xlarge",
     .chips = 1,
     .cores_per_chip = 2,
     .device_gib = {32, detail::trn1_pages},
     .device_gb_per_s = {{820, detail::trn1_pages}, {}},
     .vcpus = {8, detail::trn1_pages},
     .host_gib = {32, detail::trn1_pages},
     .network_gbit = {{12.5, detail::ec2_page}, {25, detail::trn1_pages}},
     .nvme_drives = {1, detail::ec2_page},
     .nvme_gb = {500, detail::ec2_page},
     .bf16_tflops = {{190, detail::trn1_pages}, {}},
     .fp32_tflops = {{47.5, detail::trn1_pages}, {}},
     .published_collectives = true},
    {.name = "trn1.32xlarge",
     .chips = 16,
     .cores_per_chip = 2,
     .device_gib = {512, detail::trn1_pages},
     .device_gb_per_s = {{13120, detail::trn1_pages}, {}},
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
     .published_collectives = true,
     .dollars_per_hour = {24.725, detail::sagemaker_prices}},
    {.name = "trn1n.32xlarge",
     .chips = 16,
     .cores_per_chip = 2,
     .device_gib = {512, detail::trn1_pages},
     .device_gb_per_s = {{13120, detail::trn1_pages}, {}},
     .vcpus = {128, detail::trn1_pages},
     .host_gib = {512, detail::trn1_pages},
     .network_gbit = {{1600, detail::trn1_pages}, {}},
     .nvme_drives = {4, detail::ec2_page},
     .nvme_gb = {2000, detail::ec2_page},
     .torus = {4, 4},
     .link_gb_per_s = {768, detail::trn1_pages},
     .efa_gbit = {1600, detail::trn1_pages},
     .bf16_tflops = {{3400, detail::ec2_page}, {3040, detail::trn1_pages}},
     .fp32_tflops = {{760, detail::trn1_pages}, {}},
     .published_collectives = true},
    {.name = "trn2.48xlarge",
     .chips = 16,
     .cores_per_chip = 8,
     .machine = &machines[1],
     .logical_cores = 2,
     .device_gib = {1536, detail::trn2_pages},
     .device_gb_per_s = {{16 * 3000, detail::trn2_guide}, {16 * 2900, detail::trn2_chip}},
     .vcpus = {192, detail::trn2_pages},
     .host_gib = {2048, detail::trn2_pages},
     .torus = {4, 4},
     .link_gb_per_s = {1280, detail::trn2_chip},
     .links = {{{"in an instance", {1024, detail::trn2_pages}}}},
     .efa_gbit = {3200, detail::trn2_pages},
     .bf16_tflops = {{10700, detail::trn2_pages}, {}},
     .fp32_tflops = {{2900, detail::trn2_pages}, {}},
     .fp8_tflops = {20800, detail::trn2_pages}},
    {.name = "trn2-ultraserver",
     .chips = 64,
     .cores_per_chip = 8,
     .machine = &machines[1],
     .servers = 4,
     .logical_cores = 2,
     .device_gib = {6144, detail::trn2_pages},
     .device_gb_per_s = {{64 * 3000, detail::trn2_guide}, {64 * 2900, detail::trn2_chip}},
     .vcpus = {4 * 192, detail::trn2_pages},
     .host_gib = {4 * 2048, detail::trn2_pages},
     .torus = {4, 4},
     .link_gb_per_s = {1280, detail::trn2_chip},
     .links = {{{"in an instance", {1024, detail::trn2_pages}},
                {"between instances", {256, detail::trn2_pages}}}},
     .efa_gbit = {4 * 3200, detail::trn2_pages},
     .bf16_tflops = {{4 * 10700, detail::trn2_pages}, {}},
     .fp32_tflops = {{4 * 2900, detail::trn2_pages}, {}},
     .fp8_tflops = {4 * 20800, detail::trn2_pages}},
    {.name = "trn3-ultraserver-gen1",
     .chips = 64,
     .cores_per_chip = 8,
     .machine = &machines[2],
     .servers = 4,
     .logical_cores = 2,
     .device_gib = {64 * 144, detail::trn3_pages},
     .device_gb_per_s = {{64 * 4700, detail::trn3_guide}, {64 * 4900, detail::trn3_chip}},
     .vcpus = {768, detail::trn3_pages},
     .switched = true,
     .link_gb_per_s = {2560, detail::trn3_chip},
     .links = detail::trn3_links,
     .bf16_tflops = {{42900, detail::trn3_pages}, {}},
     .fp32_tflops = {{11700, detail::trn3_pages}, {}},
     .fp8_tflops = {161000, detail::trn3_pages}},
    {.name = "trn3-ultraserver-gen2",
     .chips = 144,
     .cores_per_chip = 8,
     .machine = &machines[2],
     .servers = 36,
     .logical_cores = 2,
     .device_gib = {144 * 144, detail::trn3_pages},
     .device_gb_per_s = {{144 * 4700, detail::trn3_guide}, {144 * 4900, detail::trn3_chip}},
     .vcpus = {2304, detail::trn3_pages},
     .switched = true,
     .link_gb_per_s = {2560, detail::trn3_chip},
     .links = detail::trn3_links,
     .bf16_tflops = {{96600, detail::trn3_pages}, {}},
     .fp32_tflops = {{26400, detail::trn3_pages}, {}},
     .fp8_tflops = {362000, detail::trn3_pages}},
}};

// The instance of that name. Error neuroncore.instance lists the known names.
const Instance& instance_of(std::string_view name);

// The chips that are linked to chip `device`, ascending: its neighbours in its row and its column
// of its server, the first and the last of a row or column being neighbours too, and its neighbours
// in the ring of equal places of all servers; or all others, if they are switched. Empty if there
// are no links. Error neuroncore.instance: no such chip.
std::vector<std::size_t> linked_chips(const Instance& instance, std::size_t device);

// One side of the fine-tuning that the vendor published (a text classifier, BERT-base, one epoch):
// steps a second, accuracy, seconds and dollars as printed.
struct PublishedRun {
  std::string_view instance;
  double dollars_per_hour = 0;
  double steps_per_second = 0, accuracy = 0, seconds = 0, dollars = 0;

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
                                            .dollars = 68.6};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/instances/impl/instance.ipp>
#endif
