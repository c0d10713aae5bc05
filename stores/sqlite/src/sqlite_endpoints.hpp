#pragma once

#include <optional>

#include "connection.hpp"
#include "oncebox/endpoint_store.hpp"
#include "reader_pool.hpp"
#include "writer.hpp"

namespace oncebox::sqlite {

/// The endpoints, one row of `oncebox_endpoint` for each.
class SqliteEndpoints final : public EndpointStore {
 public:
  /// Everything is borrowed.
  SqliteEndpoints(Connection& writer_connection, Writer& writer, ReaderPool& readers);

 private:
  std::optional<EndpointList> do_list(std::optional<std::int64_t> known_version,
                                      EndpointSecrets secrets) override;
  EndpointSaved do_save(const Endpoint& endpoint, const EndpointOptions& options) override;
  bool do_remove(const EndpointName& name, const EndpointOptions& options) override;
  std::optional<EndpointNoted> do_note(const EndpointName& name,
                                       const EndpointEvent& event) override;

  /// These run on the writer's thread.
  [[nodiscard]] std::optional<EndpointRecord> find(const EndpointName& name);
  [[nodiscard]] std::int64_t version();
  [[nodiscard]] std::size_t count();

  Connection& connection_;
  Writer& writer_;
  ReaderPool& readers_;
  Statement find_;
  Statement count_;
  Statement insert_;
  Statement update_;
  Statement update_status_;
  Statement delete_;
  Statement advance_;
};

}  // namespace oncebox::sqlite
