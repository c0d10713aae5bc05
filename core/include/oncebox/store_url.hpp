#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace oncebox {

/// A store's address, split: `scheme:location?name=value&…`. Percent-escapes in the parameters are
/// decoded; what stands between the scheme and the `?` is left as it is, for the backend to read.
class StoreUrl {
 public:
  /// Throws `invalid_argument` for text without a scheme, with a repeated parameter, or with a
  /// broken escape. The text of the error never contains the URL, which may hold a password.
  explicit StoreUrl(std::string_view text);

  [[nodiscard]] const std::string& scheme() const noexcept { return scheme_; }
  [[nodiscard]] const std::string& location() const noexcept { return location_; }

  /// Removes a parameter and answers its value, so that `require_no_more_parameters` can tell what
  /// nobody asked for.
  [[nodiscard]] std::optional<std::string> take(std::string_view name);
  /// The same for a whole number; throws `invalid_argument` when it is none.
  [[nodiscard]] std::optional<std::uint64_t> take_number(std::string_view name);

  /// Throws `invalid_argument`, naming the parameter, when one is left.
  void require_no_more_parameters() const;

 private:
  std::string scheme_;
  std::string location_;
  std::map<std::string, std::string, std::less<>> parameters_;
};

}  // namespace oncebox
