// Configuration: a file, an environment variable and a setting of a flag. It is loaded whole, or
// refused with a reason.

#include <sys/mman.h>
#include <unistd.h>

#include "config/config.hpp"
#include "fuzz_input.hpp"

namespace {

using namespace oncebox;

/// A file in memory that is written anew for each input.
class MemoryFile {
 public:
  MemoryFile() : file_(memfd_create("oncebox.toml", MFD_CLOEXEC)) {
    fuzz::require(file_ >= 0, "there is a file in memory");
  }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void write(std::string_view text) const {
    fuzz::require(ftruncate(file_, 0) == 0 && pwrite(file_, text.data(), text.size(), 0) ==
                                                  static_cast<ssize_t>(text.size()),
                  "the file can be written");
  }
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  const int file_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const MemoryFile file;
  fuzz::Input input(data, size);
  app::ConfigSources sources{.file = file.path(), .environment = {"ONCEBOX_" + input.line()}};
  const std::string setting = input.line();
  const std::size_t equals = std::min(setting.find('='), setting.size());
  if (!setting.empty()) {
    sources.settings = {
        {setting.substr(0, equals), setting.substr(std::min(equals + 1, setting.size()))}};
  }
  file.write(input.rest());
  try {
    const app::LoadedConfig loaded = app::load_config(sources);
    fuzz::require(!loaded.config.stores.empty(), "there is a store");
    loaded.config.server.validate();
  } catch (const app::Failure& failure) {
    fuzz::require(failure.code() == app::ExitCode::bad_config, failure.what());
    fuzz::require(*failure.what() != '\0', "a refusal has a reason");
  }
  return 0;
}
