#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "oncebox/call_options.hpp"
#include "oncebox/endpoint.hpp"

namespace oncebox {

/// All endpoints of a store, by name, as they are at one version.
struct EndpointList {
  std::int64_t version = 0;
  std::vector<EndpointRecord> endpoints = {};

  /// Null when there is none of this name.
  [[nodiscard]] const EndpointRecord* find(std::string_view name) const noexcept;
};

enum class EndpointSecrets { leave_out, include };

enum class EndpointSaved { created, changed, unchanged };

/// What `note` has done.
struct EndpointNoted {
  bool changed = false;  ///< of several that note the same, one is told so
  EndpointStatus status = {};

  friend bool operator==(const EndpointNoted&, const EndpointNoted&) = default;
};

struct EndpointOptions {
  std::string reason = {};  ///< for the trail of a server

  // What the caller may set. A server decides that for its callers, whatever they ask for.

  /// False: secrets that name something of the machine that delivers (`env:`, `file:`) are only
  /// kept, and only while the URL stays as it is.
  bool may_name_secrets = true;
  /// False: an endpoint calls private addresses only if it did so before, at the same URL.
  bool may_allow_private = true;
};

/// The endpoints that a store keeps. Whoever lists them after a call has returned, in any process,
/// sees what it changed. Threads, atomicity, bad input and limits as for `QueueStore`.
class EndpointStore {
 public:
  static constexpr std::size_t kMaxEndpoints = 1'000;

  virtual ~EndpointStore() = default;
  EndpointStore(const EndpointStore&) = delete;
  EndpointStore& operator=(const EndpointStore&) = delete;

  [[nodiscard]] EndpointList list(EndpointSecrets secrets = EndpointSecrets::leave_out,
                                  const CallOptions& call = {});
  /// The same, or nothing when the version is still the known one.
  [[nodiscard]] std::optional<EndpointList> list_unless(
      std::int64_t known_version, EndpointSecrets secrets = EndpointSecrets::leave_out,
      const CallOptions& call = {});

  /// Adds an endpoint, or replaces what the one of this name is set to; its status stays. Throws as
  /// `Endpoint::validate` does, `overloaded` when there are too many, and `invalid_argument` when
  /// the caller may not set what it asks for.
  EndpointSaved save(const Endpoint& endpoint, const EndpointOptions& options = {},
                     const CallOptions& call = {});

  /// False when there is none of this name. What is under way to it fails for good.
  bool remove(const EndpointName& name, const EndpointOptions& options = {},
              const CallOptions& call = {});

  /// Notes what happened to an endpoint; nothing when there is none of this name.
  std::optional<EndpointNoted> note(const EndpointName& name, const EndpointEvent& event,
                                    const CallOptions& call = {});

 protected:
  EndpointStore() = default;

 private:
  /// Nothing when the version is the known one.
  virtual std::optional<EndpointList> do_list(std::optional<std::int64_t> known_version,
                                              EndpointSecrets secrets) = 0;
  virtual EndpointSaved do_save(const Endpoint& endpoint, const EndpointOptions& options) = 0;
  virtual bool do_remove(const EndpointName& name, const EndpointOptions& options) = 0;
  virtual std::optional<EndpointNoted> do_note(const EndpointName& name,
                                               const EndpointEvent& event) = 0;
};

/// The endpoints that a store has when one is saved.
struct EndpointsBefore {
  std::optional<Endpoint> known = {};  ///< the one of its name, with its secrets
  std::size_t count = 0;
};

/// For authors of stores: what `save` is to keep of an endpoint. Throws as `save` does.
[[nodiscard]] Endpoint endpoint_after(const EndpointsBefore& before, const Endpoint& wanted,
                                      const EndpointOptions& options);

}  // namespace oncebox
