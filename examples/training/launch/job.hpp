// The container of a hosting service: a training job and a server find their settings there instead
// of on a command line. The service starts the image with the argument "train" or "serve" and a
// layout of folders below /opt/ml; its toolkit for Python also sets variables SM_..., and starts
// the program with options alone.
#pragma once

#include <soma/text/data_files.hpp>

#include <string>
#include <vector>

struct Job {
  std::vector<std::string> arguments;  // the command line that it amounts to
  // The files of the channels, and the arguments --data and --dev that represent them.
  soma::text::DataFiles files;
  std::string data, dev;
};

// True if the command line starts a training job: it has no --data, and it is either the argument
// "train" or options alone while there are channels (SM_CHANNEL_...), or the argument "train" while
// the service's folder of settings exists.
bool is_training_job(const std::vector<std::string>& typed);
// The file that gets the reason of a failure.
std::string failure_file_of_job();
// Reads a job. The command line wins over hyperparameters, which win over the job's other settings.
// `flags`: the options of train without a value. Ignored settings are named on standard error.
// Errors UsageError, file.read, text.folder.
Job read_job(const std::vector<std::string>& typed, const std::vector<std::string>& flags);

// The command line of a server in the service's container: "serve" without --model gets the
// container's model, host and port; other command lines are returned unchanged.
std::vector<std::string> arguments_of_server(std::vector<std::string> typed);

// The hosts of a job, and the source of this list; empty outside of jobs. Error UsageError.
struct JobHosts {
  std::vector<std::string> names;
  std::string source;
};
JobHosts hosts_of_job();
