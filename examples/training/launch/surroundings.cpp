#include "training/launch/surroundings.hpp"

#include "training/launch/job.hpp"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// 0 if the variable is missing or no number.
int number(const char* name) {
  const std::string text = variable(name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value > 0 ? value : 0;
}

// The text in a form that a shell reads back.
std::string shell_word(const std::string& text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!text.empty() && text.find_first_not_of(plain) == text.npos) return text;
  std::string word = "'";
  for (const char letter : text)
    if (letter == '\'')
      word += "'\\''";
    else
      word += letter;
  return word + "'";
}

}  // namespace

Surroundings look_around() {
  Surroundings found;
  const auto says = [&found](int processes, const std::string& source) {
    if (processes <= found.processes) return;
    found.processes = processes;
    found.source = source;
  };
  // Open MPI's mpirun, then launchers with PMI (MPICH's, srun --mpi=pmi2) or PMIx.
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}) {
    found.launcher = found.launcher || !variable(name).empty();
    found.first = found.first && number(name) == 0;
  }
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const int size = number(name); size != 0) {
      found.launcher = true;
      says(size, name + ("=" + std::to_string(size)));
    }
  if (!variable("RANK").empty()) {
    says(number("WORLD_SIZE"), "WORLD_SIZE=" + variable("WORLD_SIZE") + " of torchrun");
    const int local = number("LOCAL_WORLD_SIZE");
    found.other_hosts = local != 0 && local < number("WORLD_SIZE");
  }
  // srun's own variables: a batch script has SLURM_NTASKS too, and is one process.
  if (!variable("SLURM_STEP_ID").empty() && !variable("SLURM_PROCID").empty()) {
    const char* name =
        number("SLURM_STEP_NUM_TASKS") != 0 ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
    says(number(name), name + ("=" + variable(name)) + " of srun");
  }
  const JobHosts hosts = hosts_of_job();
  says(static_cast<int>(hosts.names.size()), hosts.source);
  if (hosts.names.size() > 1)
    for (const std::string& host : hosts.names)
      found.hosts += (found.hosts.empty() ? "" : ",") + host;
  return found;
}

std::string mpirun_line(const Surroundings& around, const std::vector<std::string>& command) {
  std::string line = "mpirun -n " + std::to_string(around.processes);
  if (!around.hosts.empty())
    line += " --host " + around.hosts;
  else if (around.other_hosts)
    line += " --hostfile HOSTS";
  for (const std::string& word : command) line += " " + shell_word(word);
  return line;
}
