#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace oncebox {

/// A store's address, split: `scheme:location?name=value&…`. Percent-escapes in the parameters are
/// decoded; what stands between the scheme and the `?` is left as it is, for the backend to read.
/// In `scheme://user:password@host…` a `?` before the `@` belongs to the password.
class StoreUrl {
 public:
  /// Throws `invalid_argument` for text without a scheme, with a port that cannot be, with a
  /// parameter that has no value, or with a broken escape. The text of the error never contains the
  /// URL, which may hold a password.
  explicit StoreUrl(std::string_view text);

  [[nodiscard]] const std::string& scheme() const noexcept { return scheme_; }
  [[nodiscard]] const std::string& location() const noexcept { return location_; }

  /// Removes a parameter and answers its value, so that `require_no_more_parameters` can tell what
  /// nobody asked for. Throws `invalid_argument` when it is there twice.
  [[nodiscard]] std::optional<std::string> take(std::string_view name);
  /// The same for a whole number; throws `invalid_argument` when it is none.
  [[nodiscard]] std::optional<std::uint64_t> take_number(std::string_view name);
  /// The same for `on` and `off`.
  [[nodiscard]] std::optional<bool> take_switch(std::string_view name);

  /// Throws `invalid_argument`, naming the parameter, when one is left.
  void require_no_more_parameters() const;

  /// The URL as it was written, without the parameters that were taken: for a client library that
  /// reads URLs by itself, and knows what the others mean.
  [[nodiscard]] std::string without_taken() const;

 private:
  struct Parameter {
    std::string name;
    std::string value;
    std::string written;  ///< both as they stood in the URL
  };

  std::string scheme_;
  std::string location_;
  std::vector<Parameter> parameters_;
};

/// What stands for the server that a store lives on: scheme, hosts and ports, without user and
/// password. The scheme alone for a URL that names no host, nothing for text that is no URL.
[[nodiscard]] std::string database_server(std::string_view url);

}  // namespace oncebox
