#include "oncebox/store_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/internal/descriptor.hpp"
#include "store_file_impl.hpp"
#include "store_list.hpp"

namespace oncebox {
namespace {

[[noreturn]] void throw_unreadable(const std::filesystem::path& path, int error) {
  throw Error(ErrorCode::unavailable, fmt::format("cannot read {}: {}", path.string(),
                                                  std::generic_category().message(error)));
}

std::string read_all(const detail::Descriptor& file, const std::filesystem::path& path) {
  std::string text;
  constexpr std::size_t kPart = std::size_t{64} << 10;
  for (;;) {
    const std::size_t before = text.size();
    text.resize(before + kPart);
    const ssize_t count = ::read(file.get(), text.data() + before, kPart);
    if (count < 0 && errno != EINTR) throw_unreadable(path, errno);
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) return text;
    if (text.size() > kMaxStoreFileBytes) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} has more than {} bytes", path.string(), kMaxStoreFileBytes));
    }
  }
}

}  // namespace

StoreFile::StoreFile(std::filesystem::path path) : impl_(std::make_unique<Impl>()) {
  impl_->path = std::move(path);
}

StoreFile::~StoreFile() = default;

const std::filesystem::path& StoreFile::path() const noexcept { return impl_->path; }

std::vector<StoreLocation> StoreFile::read() const {
  const std::filesystem::path& path = impl_->path;
  // Else a pipe in its place would be waited for.
  const detail::Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const int open_error = errno;
  struct stat status{};
  const bool is_open = file.is_open() && fstat(file.get(), &status) == 0;
  impl_->note(is_open ? file_state(status) : file_state(path.c_str()));
  if (!is_open) throw_unreadable(path, open_error);
  if (!S_ISREG(status.st_mode)) throw_unreadable(path, EINVAL);
  const std::string text = read_all(file, path);
  try {
    return path.extension() == ".json" ? parse_json_stores(text) : parse_toml_stores(text);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace oncebox
