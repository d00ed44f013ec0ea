#![allow(missing_docs, unused, clippy::all, reason="x")]
use std::path::Path; use std::sync::Arc; use ldap::dn::Dn; use ldap::message::{Scope,Values}; use schema::*;
pub struct Store; #[derive(Default,Clone,Debug)] pub struct StoreOptions{}
#[derive(Default)] pub struct IndexConfig;
#[derive(Debug)] pub enum StoreError{Full, Other} impl std::fmt::Display for StoreError{fn fmt(&self,f:&mut std::fmt::Formatter<'_>)->std::fmt::Result{Ok(())}}
impl Store{ pub fn create(a:&Path,b:&StoreOptions,c:Arc<Schema>,d:IndexConfig,e:&[Dn])->Result<Store,StoreError>{loop{}} pub fn open(a:&Path,b:&StoreOptions,c:Arc<Schema>)->Result<Store,StoreError>{loop{}} pub fn set_schema(&self,a:Arc<Schema>){} pub fn naming_contexts(&self)->Arc<[Dn]>{loop{}} pub fn schema_definitions(&self)->Vec<String>{loop{}} pub fn reader(self:&Arc<Self>)->Reader{loop{}} pub fn begin(&self)->Result<Batch<'_>,StoreError>{loop{}}}
pub struct Reader; impl Reader{pub fn view(&mut self)->Result<&View<'_>,StoreError>{loop{}} pub fn release(&mut self){}}
pub struct View<'t>{a:&'t u8} pub enum Resolved{Found(EntryId),Missing{nearest:Option<EntryId>},NoContext}
pub struct Plan{pub estimate:u64,pub exact:bool,pub indexed:bool} impl Plan{pub fn candidates<'a>(&'a self,v:&'a View<'_>,after:EntryId)->impl Iterator<Item=Result<EntryId,StoreError>>+'a{std::iter::empty()}}
impl View<'_>{pub fn resolve(&self,k:&DnKey)->Result<Resolved,StoreError>{loop{}} pub fn entry(&self,i:EntryId)->Result<Option<StoredEntry<'_>>,StoreError>{loop{}} pub fn child_count(&self,i:EntryId)->Result<u64,StoreError>{loop{}} pub fn dn(&self,i:EntryId)->Result<String,StoreError>{loop{}} pub fn has_any(&self,d:&AttributeDescription)->Result<bool,StoreError>{loop{}} pub fn is_within(&self,e:&StoredEntry<'_>,b:EntryId)->Result<bool,StoreError>{loop{}} pub fn plan(&self,f:&ResolvedFilter,b:EntryId,s:Scope)->Result<Plan,StoreError>{loop{}}}
pub struct StoredEntry<'v>{a:&'v u8} impl StoredEntry<'_>{pub fn id(&self)->EntryId{loop{}} pub fn parent(&self)->EntryId{loop{}} pub fn to_entry(&self)->Result<Entry,StoreError>{loop{}}}
impl EntryRead for StoredEntry<'_>{fn dn(&self)->&str{""} fn visit_values(&self,a:&AttributeDescription,v:&mut dyn FnMut(&AttributeDescription,&[u8])->bool)->bool{true} fn visit_attributes(&self,v:&mut dyn FnMut(&AttributeDescription,Values<'_>)){}}
pub struct Batch<'s>{a:&'s u8} impl Batch<'_>{pub fn view(&self)->View<'_>{loop{}} pub fn next_entry_id(&mut self)->EntryId{loop{}} pub fn apply(&mut self,c:&Change)->Result<(),StoreError>{loop{}} pub fn commit(self)->Result<u64,StoreError>{loop{}}}
