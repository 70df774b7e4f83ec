// soma-ls: shows the accelerators of a rented instance, in the form of the vendor's neuron-ls on a
// real one, and the soma programs that train on this machine.
//   0 done, 1 it failed, 2 it was called wrongly. Errors are one line that ends with an id.

#include "neuron_tools/program.hpp"
#include "neuron_tools/tables.hpp"

#include <soma/base/fixed.hpp>
#include <soma/io/status/status_page.hpp>
#include <soma/neuroncore/instances/instance.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace {

namespace nc = soma::neuroncore;
using Json = nlohmann::ordered_json;

// The number without trailing zeros.
std::string number(double value) {
  std::string text = soma::fixed(value, 3);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}
std::string text_of(const nc::Figure& figure, std::string_view unit) {
  if (!figure.given()) return "not given";
  return number(figure.value).append(unit.empty() ? "" : " ").append(unit);
}
std::string text_of(const nc::Figures& figures, std::string_view unit) {
  std::string text = text_of(figures.first, unit);
  if (figures.disagree())
    text.append(" (or ").append(text_of(figures.other, unit)).append(": sources disagree)");
  return text;
}

std::string linked_text(const nc::Instance& instance, std::size_t device) {
  if (instance.switched) return "all";
  std::string text;
  for (const std::size_t linked : nc::linked_chips(instance, device))
    text.append(text.empty() ? "" : ", ").append(std::to_string(linked));
  return text.empty() ? "-" : text;
}

struct Line {
  std::string_view name;
  std::string text;
};

std::vector<Line> facts(const nc::Instance& it) {
  std::vector<Line> lines{{"device memory", text_of(it.device_gib, "GiB")},
                          {"its bandwidth", text_of(it.device_gb_per_s, "GB/s")},
                          {"vCPU", text_of(it.vcpus, "")},
                          {"host memory", text_of(it.host_gib, "GiB")},
                          {"network", text_of(it.network_gbit, "Gbit/s")},
                          {"NVMe", it.nvme_drives.given() ? number(it.nvme_drives.value) + " x " +
                                                                text_of(it.nvme_gb, "GB")
                                                          : "not given"},
                          {"NeuronLink a chip", text_of(it.link_gb_per_s, "GB/s")},
                          {"EFA", text_of(it.efa_gbit, "Gbit/s")},
                          {"fp8 or MX peak", text_of(it.fp8_tflops, "TFLOPS")},
                          {"bf16 peak", text_of(it.bf16_tflops, "TFLOPS")},
                          {"fp32 peak", text_of(it.fp32_tflops, "TFLOPS")},
                          {"price", text_of(it.dollars_per_hour, "$ an hour")}};
  for (const nc::LinkDistance& link : it.links)
    if (!link.distance.empty())
      lines.push_back({link.distance, text_of(link.gb_per_s, "GB/s a chip")});
  return lines;
}

void print_devices(const nc::Instance& instance) {
  std::vector<tools::Row> rows{
      {"DEVICE", "CORES", "CORE IDS", "MEMORY", "CONNECTED DEVICES", "PCI BDF", "NUMA NODE"}};
  const double memory = instance.device_gib.value / static_cast<double>(instance.chips);
  for (std::size_t device = 0; device < instance.chips; ++device) {
    const std::size_t first = device * instance.cores_per_chip;
    rows.push_back(
        {std::to_string(device), std::to_string(instance.cores_per_chip),
         std::to_string(first) + "-" + std::to_string(first + instance.cores_per_chip - 1),
         number(memory) + " GiB", linked_text(instance, device), "-", "-"});
  }
  std::cout << tools::table(rows);
}

void print_topology(const nc::Instance& instance) {
  const auto [rows, columns] = instance.torus;
  if (instance.switched) {
    std::cout << "\nswitched: every chip is linked to every other, in " << instance.servers
              << " servers of " << instance.chips_per_server() << " chips\n";
    return;
  }
  if (rows == 0) {
    std::cout << "\none chip: no links between chips\n";
    return;
  }
  std::cout << "\nlinks between chips: neighbours in rows and columns; the ends of each row and "
               "column are linked too\n";
  for (std::size_t row = 0; row < rows; ++row) {
    std::string line = "  ", below = "  ";
    for (std::size_t column = 0; column < columns; ++column) {
      std::string name = std::to_string(row * columns + column);
      name.insert(0, 2 - name.size(), ' ');
      line.append("[").append(name).append("]").append(column + 1 < columns ? "--" : "");
      below.append("  | ").append(column + 1 < columns ? "  " : "");
    }
    std::cout << line << '\n';
    if (row + 1 < rows) std::cout << below.substr(0, below.find_last_not_of(' ') + 1) << '\n';
  }
  if (instance.servers > 1)
    std::cout << "  " << instance.servers << " instances like this one; chips in equal places, "
              << instance.chips_per_server() << " apart, are rings\n";
}

Json json_of(const nc::Figure& figure) {
  if (!figure.given()) return nullptr;
  return {{"value", figure.value}, {"source", figure.source}};
}
Json json_of(const nc::Figures& figures) {
  Json all = Json::array();
  if (figures.first.given()) all.push_back(json_of(figures.first));
  if (figures.disagree()) all.push_back(json_of(figures.other));
  return all;
}

Json json_of(const nc::Instance& it) {
  Json devices = Json::array();
  for (std::size_t device = 0; device < it.chips; ++device) {
    Json linked = Json::array(), cores = Json::array();
    for (const std::size_t other : nc::linked_chips(it, device)) linked.push_back(other);
    for (std::size_t core = 0; core < it.cores_per_chip; ++core)
      cores.push_back(device * it.cores_per_chip + core);
    devices.push_back({{"neuron_device", device},
                       {"nc_count", it.cores_per_chip},
                       {"neuroncore_ids", cores},
                       {"memory_gib", it.device_gib.value / static_cast<double>(it.chips)},
                       {"connected_to", linked}});
  }
  Json links = Json::array();
  for (const nc::LinkDistance& link : it.links)
    if (!link.distance.empty())
      links.push_back({{"distance", link.distance}, {"gb_per_s", json_of(link.gb_per_s)}});
  return {{"instance_type", it.name},
          {"servers", it.servers},
          {"logical_cores", it.logical_cores},
          {"devices", devices},
          {"device_memory_gib", json_of(it.device_gib)},
          {"device_memory_gb_per_s", json_of(it.device_gb_per_s)},
          {"vcpus", json_of(it.vcpus)},
          {"host_memory_gib", json_of(it.host_gib)},
          {"network_gbit_per_s", json_of(it.network_gbit)},
          {"nvme_drives", json_of(it.nvme_drives)},
          {"nvme_gb_each", json_of(it.nvme_gb)},
          {"neuronlink_gb_per_s", json_of(it.link_gb_per_s)},
          {"links", links},
          {"efa_gbit_per_s", json_of(it.efa_gbit)},
          {"fp8_tflops", json_of(it.fp8_tflops)},
          {"bf16_tflops", json_of(it.bf16_tflops)},
          {"fp32_tflops", json_of(it.fp32_tflops)},
          {"dollars_per_hour", json_of(it.dollars_per_hour)}};
}

// The list of the vendor's tool, by its fields. What only a real machine has is null.
Json vendor_list(const nc::Instance& it, const Json& processes) {
  Json list = Json::array();
  const Json all = json_of(it);
  for (const Json& device : all["devices"])
    list.push_back(
        {{"neuron_device", device["neuron_device"]},
         {"bdf", nullptr},
         {"cpu_affinity", nullptr},
         {"numa_node", nullptr},
         {"connected_to", device["connected_to"].empty() ? Json() : device["connected_to"]},
         {"nc_count", device["nc_count"]},
         {"neuroncore_ids", device["neuroncore_ids"]},
         {"memory_size",
          static_cast<std::uint64_t>(device["memory_gib"].get<double>() * 1024 * 1024 * 1024)},
         {"neuron_processes", list.empty() ? processes : Json::array()}});
  return list;
}

// There may be no pages yet, or this session may have no folder for them: then the result is empty.
soma::RunsFound runs_of(const std::string& folder) {
  if (!folder.empty()) return soma::runs_in(folder);
  if (std::getenv("XDG_RUNTIME_DIR") == nullptr) return {};
  return soma::runs_in(soma::status_folder());
}

enum class Form { text, topology, json, vendor };

void run(const std::string& name, const std::string& folder, Form form) {
  const nc::Instance& instance = nc::instance_of(name);
  const soma::RunsFound found = runs_of(folder);
  if (form == Form::json || form == Form::vendor) {
    Json processes = Json::array();
    for (const soma::RunStatus& status : found.runs)
      processes.push_back({{"pid", status.process}, {"command", status.command.data()}});
    Json all = json_of(instance);
    all["processes"] = processes;
    if (form == Form::vendor) all = vendor_list(instance, processes);
    std::cout << all.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
    return;
  }
  std::cout << "instance type: " << instance.name << ", " << instance.cores() << " cores";
  if (instance.logical_cores > 1)
    std::cout << ", " << instance.logical_cores << " appear as one by default";
  std::cout << '\n';
  print_devices(instance);
  std::cout << '\n';
  for (const Line& line : facts(instance)) {
    std::string head(line.name);
    head.resize(20, ' ');
    std::cout << head << line.text << '\n';
  }
  if (form == Form::topology) print_topology(instance);
  std::cout << "\nsoma programs that publish their progress: " << found.runs.size() << '\n';
  for (const soma::RunStatus& status : found.runs)
    std::cout << "  " << status.process << "  " << tools::printable(status.command.data()) << '\n';
  for (const std::string& line : found.left_out) std::cerr << "left out: " << line << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Lists the devices of an accelerator instance, and the soma programs that run on this "
      "machine.",
      "soma-ls");
  std::string instance = "trn1.32xlarge", folder;
  bool json = false, vendor = false, topology = false;
  std::string known;
  for (const nc::Instance& it : nc::instances)
    known.append(known.empty() ? "" : ", ").append(it.name);
  app.add_option("instance,--instance", instance, known)->capture_default_str();
  app.add_flag("--json", json, "everything with its sources, as one JSON object");
  app.add_flag("-j,--json-output", vendor, "the devices as the vendor's tool lists them")
      ->excludes("--json");
  app.add_flag("-t,--topology", topology, "the links between chips as a map");
  app.add_option("--folder", folder, "of running programs' pages; default: $XDG_RUNTIME_DIR/soma");
  return tools::run_program(app, argc, argv, [&] {
    run(instance, folder,
        vendor     ? Form::vendor
        : json     ? Form::json
        : topology ? Form::topology
                   : Form::text);
  });
}
