#pragma once

#include <optional>

#include "connection_pool.hpp"
#include "names.hpp"
#include "oncebox/endpoint_store.hpp"
#include "transaction.hpp"

namespace oncebox::postgresql {

/// The endpoints, one row of `endpoint` for each. Changes wait for each other: the row of the
/// version is their lock.
class PostgresqlEndpoints final : public EndpointStore {
 public:
  PostgresqlEndpoints(ConnectionPool& pool, const Names& names);

 private:
  std::optional<EndpointList> do_list(std::optional<std::int64_t> known_version,
                                      EndpointSecrets secrets) override;
  EndpointSaved do_save(const Endpoint& endpoint, const EndpointOptions& options) override;
  bool do_remove(const EndpointName& name, const EndpointOptions& options) override;
  std::optional<EndpointNoted> do_note(const EndpointName& name,
                                       const EndpointEvent& event) override;

  [[nodiscard]] std::optional<EndpointRecord> find_locked(Transaction& transaction,
                                                          const EndpointName& name,
                                                          std::size_t* count);

  ConnectionPool& pool_;
  const Statement select_;
  const Statement lock_;
  const Statement find_;
  const Statement insert_;
  const Statement update_;
  const Statement update_status_;
  const Statement delete_;
  const Statement advance_;
};

}  // namespace oncebox::postgresql
