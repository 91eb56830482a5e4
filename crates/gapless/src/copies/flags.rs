//! The flags that say which copies are meant.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use gapless_client::ServerUrl;
use gapless_proto::UserId;
use gapless_tables::replicate::Reader;

use super::{CopiedTable, Copies, Target};
use crate::connection::given;

/// Which copies are meant.
#[derive(Args)]
pub(crate) struct CopyFlags {
    /// A file that declares copies, in TOML, instead of `--from`, `--table` and `--to`.
    ///
    /// `from`: the server's address. `to`: the target, as `--to`, or `$NAME` for the environment variable that has it. `token`: likewise;
    /// GAPLESS_TOKEN by default. `[[tables]]`, once for each: `table`, and, where it shouldn't be called as at the source, `into`.
    #[arg(value_name = "FILE", conflicts_with_all = ["from", "table", "to", "into"])]
    file: Option<PathBuf>,
    /// Where the server is: http:// or https://, then its host and port
    #[arg(long, value_name = "URL", required_unless_present = "file")]
    from: Option<ServerUrl>,
    /// The table, by the name that the server declares
    #[arg(long, value_name = "NAME", required_unless_present = "file")]
    table: Option<String>,
    /// Where the copy goes: postgres://USER:PASSWORD@HOST/DATABASE or sqlite:FILE
    #[arg(long, value_name = "TARGET", required_unless_present = "file")]
    to: Option<String>,
    /// What the copy is called, as in `shop.orders`; as at the source by default
    #[arg(long, value_name = "TABLE")]
    into: Option<String>,
    /// A token that may read the table; `gapless token --user NAME --scope read:table:NAME` makes one
    #[arg(long, value_name = "TOKEN", env = "GAPLESS_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Who one is to a server that runs with `--auth open`; goes before a token
    #[arg(long, value_name = "USER")]
    user: Option<UserId>,
}

impl CopyFlags {
    /// What they say.
    pub(crate) fn copies(&self) -> anyhow::Result<Copies> {
        let reader = match (&self.user, given(self.token.as_ref())) {
            (Some(user), _) => Some(Reader::User(user.to_string())),
            (None, token) => token.map(|token| Reader::Token(token.to_owned())),
        };
        if let Some(file) = &self.file {
            return Copies::read(file, reader);
        }
        let (Some(from), Some(table), Some(to)) = (&self.from, &self.table, &self.to) else {
            bail!("give `--from`, `--table` and `--to`, or a file that declares copies");
        };
        let table = CopiedTable { table: table.clone(), into: self.into.clone() };
        Ok(Copies::new(from, reader, Target::parse(to)?, vec![table]))
    }
}
