#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "http/http_message.hpp"
#include "http/router.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/log.hpp"
#include "oncebox/server/server_options.hpp"

namespace oncebox::server {

/// What a caller shows to prove who it is.
struct Credentials {
  std::optional<std::string_view> authorization = {};     ///< the field of that name
  std::optional<std::string_view> certificate_name = {};  ///< of a checked client certificate
};

/// Nobody that is known here.
struct Unauthorized {
  bool showed_token = false;
};
/// Known, but not allowed to do this.
struct Forbidden {
  Principal principal;
};

/// Knows the bearer tokens and who may do what. Secrets are kept as their SHA-256 only, and all of
/// them are compared, each in constant time: how long a check takes says nothing about them.
///
/// A line may name a client certificate in place of a secret, by the common name of its subject:
/// `NAME SCOPE[,SCOPE…] cert:COMMON NAME`. A certificate that no line names may do nothing, once
/// there are lines.
///
/// At the end of a line `stores=…`, `sources=…` and `topics=…` limit what the token may touch:
/// names with commas between, or beginnings of names followed by `*`.
class Authenticator {
 public:
  /// Reads the tokens. Throws `invalid_argument`, naming the line but nothing that stands in it.
  Authenticator(const AuthOptions& options, Logger& logger);

  /// Reads them again; when that throws, the old ones stay. Safe from any thread.
  void reload();

  /// Without any line every caller may do everything.
  [[nodiscard]] bool has_tokens() const noexcept { return has_tokens_; }

  [[nodiscard]] std::variant<Principal, Unauthorized, Forbidden> check(
      const Credentials& credentials, Scope scope) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Entry {
    std::string name;
    ScopeBits scopes = 0;
    std::optional<Digest> secret = {};
    std::string certificate_name = {};
    std::shared_ptr<const TokenLimits> limits = {};  ///< null: none
  };
  using Entries = std::vector<Entry>;

  [[nodiscard]] static Digest digest(std::string_view text);
  void read_lines(std::string_view text, std::string_view where, Entries& entries) const;
  [[nodiscard]] Entry read_line(std::string_view line, const std::string& where) const;
  [[nodiscard]] std::shared_ptr<const Entries> load() const;
  [[nodiscard]] std::shared_ptr<const Entries> entries() const;

  const AuthOptions options_;
  Logger& logger_;
  mutable detail::Mutex mutex_;
  std::shared_ptr<const Entries> entries_ ONCEBOX_GUARDED_BY(mutex_);
  std::atomic<bool> has_tokens_;
};

}  // namespace oncebox::server
